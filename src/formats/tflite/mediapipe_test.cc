// Options of MediaPipe's and TensorFlow's custom operators that no file may have; golden cases hold the results.
#include <gtest/gtest.h>

#include <cstring>

#include "smelt/model.h"
#include "support/tflite_test_model.h"

namespace smelt::tflite {
namespace {

std::vector<uint8_t> words(const std::vector<int32_t>& v) {
  std::vector<uint8_t> out(v.size() * 4);
  if (!out.empty()) std::memcpy(out.data(), v.data(), out.size());
  return out;
}

/// The message for a model of one operator; "" when it loads.
std::string error_of(const std::string& code, const std::vector<std::vector<int32_t>>& inputs, int outputs,
                     const std::vector<uint8_t>& options) {
  TestModel m;
  std::vector<int32_t> in, out;
  for (const auto& shape : inputs) in.push_back(m.tensor({shape}));
  for (int i = 0; i < outputs; ++i) out.push_back(m.tensor({{1, 2, 2, 1}}));
  m.custom(code, in, out, options);
  m.end_subgraph(in, out);
  const std::string bytes = m.finish();
  const auto model = Model::load_bytes(std::as_bytes(std::span(bytes)), nullptr, "model");
  return model.ok() ? "" : model.error().message();
}

TEST(CustomOptions, WhatNoOperatorTakesIsALocatedError) {
  const std::vector<std::vector<int32_t>> image{{1, 4, 4, 1}};
  const struct {
    const char* code;
    std::vector<std::vector<int32_t>> inputs;
    int outputs;
    std::vector<uint8_t> options;
    const char* message;
  } cases[] = {
      {"MaxPoolingWithArgmax2D", image, 2, words({1, 2, 2}), "custom options of 12 bytes, at least 24 expected"},
      {"MaxPoolingWithArgmax2D", image, 2, words({0, 2, 2, 2, 2, 0}), "padding 0, 1 or 2 expected"},
      {"MaxPoolingWithArgmax2D", image, 2, words({1, 0, 2, 2, 2, 0}), "stride or window 0"},
      {"MaxPoolingWithArgmax2D", image, 1, words({1, 2, 2, 2, 2, 0}), "1 inputs and 1 outputs, 1 and 2 expected"},
      {"MaxUnpooling2D", {{1, 4, 4, 1}, {1, 4, 4}}, 1, words({1, 2, 2, 2, 2, 0}), "input 1 has rank 3, 4 expected"},
      {"Convolution2DTransposeBias", {{1, 4, 4, 1}, {1, 2, 2, 1}, {1}}, 1, words({1, 2, -2}), "stride -2"},
      {"TransformTensor", {{1, 4, 4, 1}, {1, 4, 4}}, 1, {}, "the custom options are no FlexBuffer"},
      {"Resampler", {{1, 4, 4, 1}, {1, 4, 4, 3}}, 1, {}, "[N, height, width, 2] expected"},
      {"AudioSpectrogram", {{100, 1}}, 1, {1, 2}, "the custom options are no FlexBuffer"},
  };
  for (const auto& c : cases) {
    const std::string message = error_of(c.code, c.inputs, c.outputs, c.options);
    EXPECT_NE(message.find(std::string("operator 0 CUSTOM ") + c.code), std::string::npos) << c.code << ": " << message;
    EXPECT_NE(message.find(c.message), std::string::npos) << c.code << ": " << message;
  }
}

}  // namespace
}  // namespace smelt::tflite
