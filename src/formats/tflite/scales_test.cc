// The precision in which TFLite's kernels multiply scales.
#include <gtest/gtest.h>

#include <cstring>
#include <span>

#include "ops/common/fixed_point.h"
#include "smelt/model.h"
#include "support/tflite_test_model.h"

namespace smelt::tflite {
namespace {

using Op = tfl::BuiltinOperator;
using tfl::TensorType;

// Rounding the product of these to float32 changes it by almost half a unit in the last place.
constexpr float kXScale = 0.0235611f, kWScale = 0.0041479f, kYScale = 6.1f;

/// Output of an accumulator, before the zero point, with the product of the scales of x and the filter in float32 or in
/// float64.
int32_t rescaled(int32_t accumulator, bool float_product, Rounding rounding) {
  const double product =
      float_product ? static_cast<double>(kXScale * kWScale) : static_cast<double>(kXScale) * kWScale;
  const double factor = product / static_cast<double>(kYScale);
  return rounding == Rounding::kDoubleHalfAway ? rescale_single(accumulator, factor)
                                               : rescale_double(accumulator, fixed_factor(factor));
}

/// Accumulators that the two products take to different outputs.
std::vector<int32_t> telling_accumulators(Rounding rounding) {
  const double factor = static_cast<double>(kXScale) * kWScale / kYScale;
  std::vector<int32_t> found;
  for (int boundary = 0; boundary < 120 && found.size() < 40; ++boundary) {
    const auto near = static_cast<int32_t>((boundary + 0.5) / factor);
    for (int32_t a = near - 2; a <= near + 2; ++a)
      if (rescaled(a, true, rounding) != rescaled(a, false, rounding)) found.push_back(a);
  }
  return found;
}

struct ScalesCase {
  const char* name;
  Op op;
  TensorType type;
  bool per_channel;
  bool float_product;
};

/// A model whose only non-zero addend is the bias, so that its accumulators are chosen freely.
std::string model_of(const ScalesCase& c, const std::vector<int32_t>& bias) {
  TestModel m;
  const auto n = static_cast<int32_t>(bias.size());
  const bool dense = c.op == Op::FULLY_CONNECTED, depthwise = c.op == Op::DEPTHWISE_CONV_2D;
  const std::vector<int32_t> image{1, 1, 1, depthwise ? n : 1}, out{1, 1, 1, n};
  const std::vector<float> w_scales(c.per_channel ? bias.size() : 1, kWScale);
  const std::vector<uint8_t> zeros(bias.size()),
      out_shape{1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, static_cast<uint8_t>(n), 0, 0, 0};
  std::vector<uint8_t> raw(bias.size() * 4);
  std::memcpy(raw.data(), bias.data(), raw.size());
  const int
      x = m.tensor({.shape = dense ? std::vector<int32_t>{1, 1} : image,
                    .type = c.type,
                    .scales = {kXScale},
                    .zero_points = {0}}),
      w = m.tensor({.shape = dense       ? std::vector<int32_t>{n, 1}
                             : depthwise ? std::vector<int32_t>{1, 1, 1, n}
                                         : std::vector<int32_t>{n, 1, 1, 1},
                    .type = c.type,
                    .raw = zeros,
                    .scales = w_scales,
                    .zero_points = std::vector<int64_t>(w_scales.size())}),
      b = m.tensor(
          {.shape = {n}, .type = TensorType::INT32, .raw = raw, .scales = {kXScale * kWScale}, .zero_points = {0}}),
      y = m.tensor(
          {.shape = dense ? std::vector<int32_t>{1, n} : out, .type = c.type, .scales = {kYScale}, .zero_points = {0}});
  auto& fbb = m.fbb();
  switch (c.op) {
    case Op::FULLY_CONNECTED:
      m.op(c.op, {x, w, b}, {y}, tfl::CreateFullyConnectedOptions(fbb));
      break;
    case Op::DEPTHWISE_CONV_2D:
      m.op(c.op, {x, w, b}, {y}, tfl::CreateDepthwiseConv2DOptions(fbb, tfl::Padding::VALID, 1, 1, 1));
      break;
    case Op::TRANSPOSE_CONV: {
      const int shape = m.tensor({.shape = {4}, .type = TensorType::INT32, .raw = out_shape});
      m.op(c.op, {shape, w, x, b}, {y}, tfl::CreateTransposeConvOptions(fbb, tfl::Padding::VALID, 1, 1));
      break;
    }
    default:
      m.op(c.op, {x, w, b}, {y}, tfl::CreateConv2DOptions(fbb, tfl::Padding::VALID, 1, 1));
  }
  m.end_subgraph({x}, {y});
  return m.finish();
}

class TfliteScales : public testing::TestWithParam<ScalesCase> {};

TEST_P(TfliteScales, ProductOfScales) {
  const ScalesCase& c = GetParam();
  const Rounding rounding = c.op == Op::FULLY_CONNECTED ? Rounding::kDoubleHalfAway : Rounding::kFixedDouble;
  const std::vector<int32_t> accumulators = telling_accumulators(rounding);
  ASSERT_GT(accumulators.size(), 8u);
  const std::string file = model_of(c, accumulators);
  const auto model = Model::load_bytes(std::as_bytes(std::span(file)), nullptr, "test");
  ASSERT_TRUE(model.ok()) << model.error().message();
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    SessionOptions options;
    options.backend = backend;
    auto session = Session::create(*model, options);
    ASSERT_TRUE(session.ok()) << session.error().message();
    auto x = Tensor::allocate(model->inputs()[0].dtype, model->inputs()[0].shape);
    ASSERT_TRUE(x.ok());
    const std::vector<Datum> inputs{std::move(*x)};
    const auto y = session->run(inputs);
    ASSERT_TRUE(y.ok()) << y.error().message();
    for (size_t i = 0; i < accumulators.size(); ++i)
      EXPECT_EQ(y->front().tensor.data<uint8_t>()[i], rescaled(accumulators[i], c.float_product, rounding))
          << "accumulator " << accumulators[i];
  }
}

/// 54124494 times the product of the scales is 28893.5 units of the output in float64, a little more in float32.
TEST(TfliteScales, ProductOfBatchMatmul) {
  TestModel m;
  const auto matrix = [&](const std::vector<int32_t>& shape, float scale) {
    return m.tensor({.shape = shape, .type = TensorType::INT16, .scales = {scale}, .zero_points = {0}});
  };
  const int a = matrix({1, 1, 2}, 0.01939413f), b = matrix({1, 2, 1}, 0.03740741f), y = matrix({1, 1, 1}, 1.3590068f);
  m.op(Op::BATCH_MATMUL, {a, b}, {y}, tfl::CreateBatchMatMulOptions(m.fbb()));
  m.end_subgraph({a, b}, {y});
  const std::string file = m.finish();
  const auto model = Model::load_bytes(std::as_bytes(std::span(file)), nullptr, "test");
  ASSERT_TRUE(model.ok()) << model.error().message();
  const std::vector<int16_t> left{30000, 1}, right{54124494 / 30000, 54124494 % 30000};
  const std::vector<Datum> inputs{Tensor::from<int16_t>(DType::kI16, Shape{1, 1, 2}, left),
                                  Tensor::from<int16_t>(DType::kI16, Shape{1, 2, 1}, right)};
  for (const BackendKind& backend : {BackendKind::kReference, BackendKind::kCpu}) {
    SessionOptions options;
    options.backend = backend;
    auto session = Session::create(*model, options);
    ASSERT_TRUE(session.ok()) << session.error().message();
    const auto out = session->run(inputs);
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ(out->front().tensor.data<int16_t>()[0], 28894);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Operators, TfliteScales,
    testing::Values(ScalesCase{"ConvU8", Op::CONV_2D, TensorType::UINT8, false, true},
                    ScalesCase{"ConvI8", Op::CONV_2D, TensorType::INT8, false, false},
                    ScalesCase{"ConvI8PerChannel", Op::CONV_2D, TensorType::INT8, true, false},
                    ScalesCase{"DepthwiseU8", Op::DEPTHWISE_CONV_2D, TensorType::UINT8, false, true},
                    ScalesCase{"DepthwiseI8", Op::DEPTHWISE_CONV_2D, TensorType::INT8, false, false},
                    ScalesCase{"TransposeConvU8", Op::TRANSPOSE_CONV, TensorType::UINT8, false, true},
                    ScalesCase{"TransposeConvI8", Op::TRANSPOSE_CONV, TensorType::INT8, false, false},
                    ScalesCase{"FullyConnectedU8", Op::FULLY_CONNECTED, TensorType::UINT8, false, false},
                    ScalesCase{"FullyConnectedI8", Op::FULLY_CONNECTED, TensorType::INT8, false, false},
                    ScalesCase{"FullyConnectedI8PerChannel", Op::FULLY_CONNECTED, TensorType::INT8, true, false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace smelt::tflite
