#include "formats/tflite/writer/file_layout.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "formats/tflite/writer/op_writer.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

/// A flatbuffer's offsets have 31 bits; tables and names need some of them.
constexpr size_t kMaxContents = (size_t{1} << 31) - (size_t{64} << 20);

/// TFLite's layout of strings: their count, where each begins and the last ends, their bytes.
std::string string_buffer(const Tensor& t) {
  const int64_t n = t.elements();
  std::vector<int32_t> head{static_cast<int32_t>(n)};
  auto at = static_cast<int32_t>((n + 2) * 4);
  std::string text;
  for (int64_t i = 0; i < n; ++i) {
    head.push_back(at);
    text += t.data<std::string>()[i];
    at += static_cast<int32_t>(t.data<std::string>()[i].size());
  }
  head.push_back(at);
  return std::string(reinterpret_cast<const char*>(head.data()), head.size() * 4) + text;
}

/// Builds the tables of one model. Buffers with the same contents in memory are one.
class FileBuilder {
 public:
  explicit FileBuilder(size_t bytes) : b_(std::min(bytes + (size_t{1} << 20), kMaxContents)) {
    buffers_.push_back(tfl::CreateBuffer(b_));
  }

  uint32_t buffer(const void* data, size_t size) {
    b_.ForceVectorAlignment(size, 1, 16);
    const auto bytes = b_.CreateVector(static_cast<const uint8_t*>(data), size);
    buffers_.push_back(tfl::CreateBuffer(b_, bytes));
    return static_cast<uint32_t>(buffers_.size() - 1);
  }
  uint32_t contents(const Tensor& t) {
    if (t.elements() == 0) return 0;
    if (t.dtype() == DType::kString) {
      const std::string s = string_buffer(t);
      return buffer(s.data(), s.size());
    }
    const auto [at, added] = by_address_.try_emplace({t.raw(), t.bytes()}, 0);
    if (added) at->second = buffer(t.raw(), t.bytes());
    return at->second;
  }

  Offset<tfl::QuantizationParameters> quantization(const QuantPtr& q, int scales) {
    if (!q) return 0;
    if (q->kind == Quantization::Kind::kPerBlock) {
      const auto details = tfl::CreateBlockwiseQuantization(b_, scales, 0, static_cast<int32_t>(q->block));
      // The dimension is that of the channels; blocks lie along the last one.
      return tfl::CreateQuantizationParameters(b_, 0, 0, 0, 0, tfl::QuantizationDetails::BlockwiseQuantization,
                                               details.Union(), 0);
    }
    std::vector<int64_t> zeros(q->scales.size());
    for (size_t i = 0; i < zeros.size(); ++i) zeros[i] = q->zero_point(static_cast<int64_t>(i));
    return tfl::CreateQuantizationParametersDirect(b_, nullptr, nullptr, &q->scales, &zeros,
                                                   tfl::QuantizationDetails::NONE, 0, q->axis);
  }

  Offset<tfl::Tensor> tensor(const FileTensor& t, int scales) {
    std::vector<int32_t> shape, signature;
    for (const int64_t d : t.shape.dims()) {
      shape.push_back(d < 0 ? 1 : static_cast<int32_t>(d));
      signature.push_back(static_cast<int32_t>(d));
    }
    const bool dynamic = std::ranges::count(signature, -1) > 0;
    const uint32_t contents = t.contents ? this->contents(*t.contents) : 0;
    const tfl::TensorType type = t.resource ? tfl::TensorType::RESOURCE : tensor_type(t.dtype);
    const auto quant = quantization(t.quant, scales);
    return tfl::CreateTensorDirect(b_, &shape, type, contents, t.name.c_str(), quant, t.variable, 0,
                                   dynamic ? &signature : nullptr, t.ranked);
  }

  uint32_t operator_code(const FileOperator& op) {
    const auto [at, added] = codes_.try_emplace({op.code, op.custom_code}, static_cast<uint32_t>(code_tables_.size()));
    if (added) {
      // LiteRT registers BROADCAST_TO from version 2 on and all others from version 1 on.
      const int version = op.code == tfl::BuiltinOperator::BROADCAST_TO ? 2 : 1;
      const auto byte = static_cast<int8_t>(std::min(static_cast<int>(op.code), 127));
      code_tables_.push_back(tfl::CreateOperatorCodeDirect(
          b_, byte, op.custom_code.empty() ? nullptr : op.custom_code.c_str(), version, op.code));
    }
    return at->second;
  }

  Offset<tfl::Operator> operation(const FileOperator& op) {
    const uint32_t code = operator_code(op);
    const auto options = op.options.make ? op.options.make(b_) : Offset<void>(0);
    const bool second = op.options.type2 != tfl::BuiltinOptions2::NONE;
    const std::vector<int32_t> in(op.inputs.begin(), op.inputs.end()), out(op.outputs.begin(), op.outputs.end()),
        inner(op.intermediates.begin(), op.intermediates.end());
    return tfl::CreateOperatorDirect(b_, code, &in, &out, op.options.type, second ? 0 : options,
                                     op.custom_options.empty() ? nullptr : &op.custom_options,
                                     tfl::CustomOptionsFormat::FLEXBUFFERS, nullptr, inner.empty() ? nullptr : &inner,
                                     0, 0, op.options.type2, second ? options : 0);
  }

  void subgraph(const FileSubgraph& s) {
    std::vector<Offset<tfl::Tensor>> tensors;
    std::vector<FileTensor> scales;
    const int count = static_cast<int>(s.tensors.size());
    for (const FileTensor& t : s.tensors) {
      const bool blocks = t.quant && t.quant->kind == Quantization::Kind::kPerBlock;
      if (blocks) scales.push_back(scales_of(t));
      tensors.push_back(tensor(t, blocks ? count + static_cast<int>(scales.size()) - 1 : 0));
    }
    for (const FileTensor& t : scales) tensors.push_back(tensor(t, 0));
    std::vector<Offset<tfl::Operator>> operators;
    for (const FileOperator& op : s.operators) operators.push_back(operation(op));
    const std::vector<int32_t> in(s.inputs.begin(), s.inputs.end()), out(s.outputs.begin(), s.outputs.end());
    subgraphs_.push_back(tfl::CreateSubGraphDirect(b_, &tensors, &in, &out, &operators, s.name.c_str()));
  }

  void signature(const FileSignature& s, const FileSubgraph& subgraph) {
    const auto maps = [&](const std::vector<std::string>& names, const std::vector<int>& tensors) {
      std::vector<Offset<tfl::TensorMap>> out;
      for (size_t i = 0; i < names.size(); ++i)
        out.push_back(tfl::CreateTensorMapDirect(b_, names[i].c_str(), static_cast<uint32_t>(tensors[i])));
      return out;
    };
    const auto in = maps(s.inputs, subgraph.inputs), out = maps(s.outputs, subgraph.outputs);
    signatures_.push_back(
        tfl::CreateSignatureDefDirect(b_, &in, &out, s.key.c_str(), static_cast<uint32_t>(s.subgraph)));
  }

  void metadata(const char* name, const std::string& bytes) {
    metadata_.push_back(tfl::CreateMetadataDirect(b_, name, buffer(bytes.data(), bytes.size())));
  }

  std::string finish(const std::string& description) {
    const auto model = tfl::CreateModelDirect(
        b_, 3, &code_tables_, &subgraphs_, description.empty() ? nullptr : description.c_str(), &buffers_, nullptr,
        metadata_.empty() ? nullptr : &metadata_, signatures_.empty() ? nullptr : &signatures_);
    tfl::FinishModelBuffer(b_, model);
    return {reinterpret_cast<const char*>(b_.GetBufferPointer()), b_.GetSize()};
  }

 private:
  /// Scales of a block-quantized tensor, as float16 if that holds them exactly.
  static FileTensor scales_of(const FileTensor& t) {
    Shape shape = t.shape;
    shape[t.quant->axis] = (shape[t.quant->axis] + t.quant->block - 1) / t.quant->block;
    const std::vector<float>& values = t.quant->scales;
    const bool narrow = std::ranges::all_of(values, [](float v) { return f16_to_f32(f32_to_f16(v)) == v; });
    Tensor scales(narrow ? DType::kF16 : DType::kF32, shape);
    from_floats(values.data(), scales);
    FileTensor out{.name = t.name + " (scales)", .dtype = scales.dtype(), .ranked = true, .shape = shape};
    out.contents = std::make_shared<const Tensor>(std::move(scales));
    return out;
  }

  FlatBufferBuilder b_;
  std::vector<Offset<tfl::Buffer>> buffers_;
  std::map<std::pair<const void*, size_t>, uint32_t> by_address_;
  std::map<std::pair<tfl::BuiltinOperator, std::string>, uint32_t> codes_;
  std::vector<Offset<tfl::OperatorCode>> code_tables_;
  std::vector<Offset<tfl::SubGraph>> subgraphs_;
  std::vector<Offset<tfl::SignatureDef>> signatures_;
  std::vector<Offset<tfl::Metadata>> metadata_;
};

}  // namespace

Result<std::string> lay_out(const Module& module, const std::vector<FileSubgraph>& subgraphs,
                            const std::vector<FileSignature>& signatures) {
  size_t bytes = 0;
  for (const FileSubgraph& s : subgraphs)
    for (const FileTensor& t : s.tensors)
      if (t.contents) bytes += t.contents->bytes();
  if (bytes > kMaxContents)
    return LimitReached("constants of ", bytes, " bytes: a .tflite file holds at most ", kMaxContents);
  FileBuilder layout(bytes);
  for (const FileSubgraph& s : subgraphs) layout.subgraph(s);
  for (const FileSignature& s : signatures) layout.signature(s, subgraphs[static_cast<size_t>(s.subgraph)]);
  if (const std::string description = metadata_buffer(module); !description.empty())
    layout.metadata("TFLITE_METADATA", description);
  std::string file = layout.finish(module.producer);
  file += associated_files(module, file.size());
  return file;
}

}  // namespace smelt::tflite
