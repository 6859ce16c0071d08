#pragma once

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "formats/tflite/schema.h"

namespace smelt::tflite {

/// Writes small models for tests: one subgraph after the other, tensors by index.
class TestModel {
 public:
  struct TensorSpec {
    std::vector<int32_t> shape;
    tfl::TensorType type = tfl::TensorType::FLOAT32;
    std::vector<float> values = {};  ///< contents of a float constant
    std::vector<uint8_t> raw = {};   ///< contents of a constant of another type
    bool variable = false;
    std::vector<float> scales = {};
    std::vector<int64_t> zero_points = {};
    bool list = false;  ///< a list (VARIANT) of float elements of `shape`
    std::vector<int32_t> signature = {};
  };

  int tensor(const TensorSpec& spec) {
    uint32_t buffer = 0;
    if (!spec.values.empty() || !spec.raw.empty()) {
      std::vector<uint8_t> bytes(spec.values.size() * 4);
      if (!bytes.empty()) std::memcpy(bytes.data(), spec.values.data(), bytes.size());
      buffers_.push_back(bytes.empty() ? spec.raw : std::move(bytes));
      buffer = static_cast<uint32_t>(buffers_.size());
    }
    flatbuffers::Offset<tfl::QuantizationParameters> quant;
    if (!spec.scales.empty())
      quant = tfl::CreateQuantizationParameters(fbb_, 0, 0, fbb_.CreateVector(spec.scales),
                                                fbb_.CreateVector(spec.zero_points));
    const auto signature = spec.signature.empty() ? 0 : fbb_.CreateVector(spec.signature);
    flatbuffers::Offset<flatbuffers::Vector<flatbuffers::Offset<tfl::VariantSubType>>> element;
    if (spec.list) {
      const auto type = tfl::CreateVariantSubType(fbb_, fbb_.CreateVector(spec.shape), spec.type, true);
      element = fbb_.CreateVector(&type, 1);
    }
    tensors_.push_back(tfl::CreateTensor(fbb_, fbb_.CreateVector(spec.list ? std::vector<int32_t>{} : spec.shape),
                                         spec.list ? tfl::TensorType::VARIANT : spec.type, buffer,
                                         fbb_.CreateString("t" + std::to_string(tensors_.size())), quant, spec.variable,
                                         0, signature, false, element));
    return static_cast<int>(tensors_.size()) - 1;
  }

  template <class Options>
  void op(tfl::BuiltinOperator code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
          flatbuffers::Offset<Options> options) {
    add(code, "", inputs, outputs, tfl::BuiltinOptionsTraits<Options>::enum_value, options.Union(), {});
  }
  void op(tfl::BuiltinOperator code, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
    add(code, "", inputs, outputs, tfl::BuiltinOptions::NONE, 0, {});
  }
  void custom(const std::string& name, const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs,
              const std::vector<uint8_t>& options) {
    add(tfl::BuiltinOperator::CUSTOM, name, inputs, outputs, tfl::BuiltinOptions::NONE, 0, options);
  }

  void end_subgraph(const std::vector<int32_t>& inputs, const std::vector<int32_t>& outputs) {
    subgraphs_.push_back(tfl::CreateSubGraph(fbb_, fbb_.CreateVector(tensors_), fbb_.CreateVector(inputs),
                                             fbb_.CreateVector(outputs), fbb_.CreateVector(operators_)));
    tensors_.clear();
    operators_.clear();
  }

  void metadata(const std::string& name, const std::vector<uint8_t>& bytes) {
    buffers_.push_back(bytes);
    metadata_.emplace_back(name, static_cast<uint32_t>(buffers_.size()));
  }

  /// A signature of subgraph 0 with one input.
  void signature(const std::string& key, uint32_t input_tensor) {
    const std::vector inputs{tfl::CreateTensorMap(fbb_, fbb_.CreateString("in"), input_tensor)};
    signatures_.push_back(tfl::CreateSignatureDef(fbb_, fbb_.CreateVector(inputs), 0, fbb_.CreateString(key)));
  }

  uint64_t buffer_offset = 0;  ///< Buffer.offset of all buffers with contents

  flatbuffers::FlatBufferBuilder& fbb() { return fbb_; }

  std::string finish(uint32_t version = 3) {
    std::vector<flatbuffers::Offset<tfl::Buffer>> buffers{tfl::CreateBuffer(fbb_)};
    for (const auto& b : buffers_) {
      fbb_.ForceVectorAlignment(b.size(), 1, 16);
      buffers.push_back(tfl::CreateBuffer(fbb_, fbb_.CreateVector(b), buffer_offset));
    }
    std::vector<flatbuffers::Offset<tfl::Metadata>> metadata;
    for (const auto& [name, buffer] : metadata_)
      metadata.push_back(tfl::CreateMetadata(fbb_, fbb_.CreateString(name), buffer));
    const auto model = tfl::CreateModel(fbb_, version, fbb_.CreateVector(codes_), fbb_.CreateVector(subgraphs_),
                                        fbb_.CreateString("test"), fbb_.CreateVector(buffers), 0,
                                        fbb_.CreateVector(metadata), fbb_.CreateVector(signatures_));
    tfl::FinishModelBuffer(fbb_, model);
    return {reinterpret_cast<const char*>(fbb_.GetBufferPointer()), fbb_.GetSize()};
  }

 private:
  void add(tfl::BuiltinOperator code, const std::string& name, const std::vector<int32_t>& inputs,
           const std::vector<int32_t>& outputs, tfl::BuiltinOptions type, flatbuffers::Offset<void> options,
           const std::vector<uint8_t>& custom) {
    const auto number = static_cast<int8_t>(std::min(127, static_cast<int>(code)));
    codes_.push_back(tfl::CreateOperatorCode(fbb_, number, name.empty() ? 0 : fbb_.CreateString(name), 1, code));
    operators_.push_back(tfl::CreateOperator(fbb_, static_cast<uint32_t>(codes_.size()) - 1, fbb_.CreateVector(inputs),
                                             fbb_.CreateVector(outputs), type, options, fbb_.CreateVector(custom)));
  }

  flatbuffers::FlatBufferBuilder fbb_;
  std::vector<std::vector<uint8_t>> buffers_;
  std::vector<flatbuffers::Offset<tfl::OperatorCode>> codes_;
  std::vector<flatbuffers::Offset<tfl::SubGraph>> subgraphs_;
  std::vector<flatbuffers::Offset<tfl::Tensor>> tensors_;
  std::vector<flatbuffers::Offset<tfl::Operator>> operators_;
  std::vector<std::pair<std::string, uint32_t>> metadata_;
  std::vector<flatbuffers::Offset<tfl::SignatureDef>> signatures_;
};

}  // namespace smelt::tflite
