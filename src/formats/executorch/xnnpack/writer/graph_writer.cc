#include "formats/executorch/xnnpack/writer/graph_writer.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "base/cat.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

using fb_xnnpack::XNNDatatype;
using flatbuffers::Offset;

constexpr uint32_t kInput = 1, kOutput = 2;
constexpr size_t kHeader = 32;

std::vector<uint32_t> dims_of(const Shape& s) { return {s.begin(), s.end()}; }

XNNDatatype datatype_of(DType dtype, const QuantPtr& quant) {
  using enum XNNDatatype;
  if (!quant) return dtype == DType::kF16 ? xnn_datatype_fp16 : xnn_datatype_fp32;
  if (quant->kind == Quantization::Kind::kPerToken) return xnn_datatype_qdint8;
  if (quant->kind == Quantization::Kind::kPerBlock) return xnn_datatype_qbint4;
  if (dtype == DType::kU8) return xnn_datatype_quint8;
  const bool channels = quant->kind == Quantization::Kind::kPerAxis;
  if (dtype == DType::kU4) return xnn_datatype_qcint4;
  if (dtype == DType::kI32) return channels ? xnn_datatype_qcint32 : xnn_datatype_qint32;
  return channels ? xnn_datatype_qcint8 : xnn_datatype_qint8;
}

/// A name that follows from contents: equal contents of one program, or of several, are stored and packed once.
std::string key_of(const Tensor& t) {
  uint64_t a = 0xcbf29ce484222325, b = 0x84222325cbf29ce4;
  const auto* bytes = t.data<std::byte>();
  for (size_t i = 0; i < t.bytes(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes + i, std::min<size_t>(8, t.bytes() - i));
    a = (a ^ word) * 0x100000001b3;
    a ^= a >> 29;
    b = (b + word) * 0x9e3779b97f4a7c15;
    b ^= b >> 32;
  }
  return Cat("constant_", a, "_", b, "_", t.bytes());
}

}  // namespace

Tensor permuted_constant(const Tensor& t, const std::vector<int64_t>& perm) {
  Shape shape;
  for (const int64_t p : perm) shape.push_back(t.shape()[static_cast<int>(p)]);
  Tensor out(t.dtype(), shape);
  if (t.quant() && t.quant()->kind == Quantization::Kind::kPerAxis) {
    auto q = std::make_shared<Quantization>(*t.quant());
    q->axis = static_cast<int>(std::ranges::find(perm, q->axis) - perm.begin());
    out.set_quant(std::move(q));
  } else {
    out.set_quant(t.quant());
  }
  const Shape strides = t.shape().strides();
  const auto size = static_cast<size_t>(bit_width(t.dtype()) / 8);
  std::vector<int64_t> at(perm.size(), 0);
  int64_t from = 0;
  for (int64_t i = 0; i < out.elements(); ++i) {
    std::memcpy(out.data<std::byte>() + static_cast<size_t>(i) * size,
                t.data<std::byte>() + static_cast<size_t>(from) * size, size);
    for (size_t d = perm.size(); d-- > 0;) {
      const int64_t stride = strides[static_cast<int>(perm[d])], n = shape[static_cast<int>(d)];
      from += stride;
      if (++at[d] < n) break;
      from -= stride * n;
      at[d] = 0;
    }
  }
  return out;
}

QuantPtr bias_quant(const Graph& graph, const Node& node) {
  const auto quant_of = [&](size_t i) {
    const Value& v = graph.value(node.inputs[i]);
    return v.type.quant || !v.constant ? v.type.quant : v.constant->quant();
  };
  const Value& bias = graph.value(node.inputs[2]);
  const QuantPtr own = quant_of(2), input = quant_of(0), weights = quant_of(1);
  if (own || !is_integer(bias.type.dtype) || !is_per_tensor(input) || !weights) return own;
  auto product = std::make_shared<Quantization>();
  for (const float scale : weights->scales) product->scales.push_back(scale * input->scale());
  if (weights->kind == Quantization::Kind::kPerAxis) product->kind = Quantization::Kind::kPerAxis;
  return product;
}

bool XnnGraphWriter::add(const Node& node) { return write_xnn_node(*this, node); }

XnnGraphWriter::Id XnnGraphWriter::add_value(DType dtype, const Shape& shape, QuantPtr quant) {
  values_.push_back({dtype, shape, std::move(quant), {}});
  return static_cast<Id>(values_.size() - 1);
}

XnnGraphWriter::Id XnnGraphWriter::add_constant(DType dtype, const Shape& shape, QuantPtr quant,
                                                std::function<Tensor()> contents) {
  const Id id = add_value(dtype, shape, std::move(quant));
  values_[id].contents = std::move(contents);
  return id;
}

XnnGraphWriter::Id XnnGraphWriter::value(ValueId id) {
  Forms& f = forms_[id];
  if (f.graph_order != kXnnInvalidId) return f.graph_order;
  const Value& v = graph_.value(id);
  const Shape shape = v.type.shape.rank() == 0 ? Shape{1} : v.type.shape;
  if (v.constant) {
    // The runtime's broadcasting knows no rank 0.
    const Tensor t = *v.constant;
    return f.graph_order = add_constant(t.dtype(), shape, v.type.quant ? v.type.quant : t.quant(), [t] { return t; });
  }
  if (f.channels_last != kXnnInvalidId) {
    std::vector<int64_t> perm{0, shape.rank() - 1};
    for (int d = 1; d + 1 < shape.rank(); ++d) perm.push_back(d);
    const Id y = transpose(f.channels_last, perm);
    return forms_[id].graph_order = y;
  }
  f.graph_order = add_value(v.type.dtype, shape, v.type.quant);
  values_.back().external = static_cast<uint32_t>(inputs_.size());
  values_.back().flags = kInput;
  inputs_.push_back(id);
  return f.graph_order;
}

XnnGraphWriter::Id XnnGraphWriter::channels_last(ValueId id) {
  if (forms_[id].channels_last != kXnnInvalidId) return forms_[id].channels_last;
  const Id x = value(id);
  std::vector<int64_t> perm{0};
  for (int d = 2; d < shape(x).rank(); ++d) perm.push_back(d);
  perm.push_back(1);
  const Id y = transpose(x, perm);
  return forms_[id].channels_last = y;
}

bool XnnGraphWriter::only_channels_last(ValueId id) const {
  const auto at = forms_.find(id);
  return at != forms_.end() && at->second.graph_order == kXnnInvalidId && at->second.channels_last != kXnnInvalidId;
}

void XnnGraphWriter::node(Type type, Table table) { nodes_.push_back({type, std::move(table)}); }
void XnnGraphWriter::node(Type type, Table table, Bounds bounds) {
  nodes_.push_back({type, std::move(table), true, bounds});
}

XnnGraphWriter::Id XnnGraphWriter::unary(Type type, Id x, DType dtype, const Shape& shape, QuantPtr quant) {
  const Id y = add_value(dtype, shape, std::move(quant));
  node(type, [=](Builder& b) { return fb_xnnpack::Create_XNNNode1x1(b, x, y).Union(); });
  return y;
}

XnnGraphWriter::Id XnnGraphWriter::convert(Id x, DType to, QuantPtr quant) {
  const Shape s = shape(x);
  const int slices = quant && quant->kind == Quantization::Kind::kPerToken ? quant->axis : 0;
  if (slices > 0)
    if (const auto at = slices_.find({x, slices}); at != slices_.end()) return at->second;
  const Id y = unary(Type::XNNConvert, x, to, s, std::move(quant));
  if (slices > 0) slices_[{x, slices}] = y;
  return y;
}

XnnGraphWriter::Id XnnGraphWriter::transpose(Id x, const std::vector<int64_t>& perm) {
  if (std::ranges::is_sorted(perm)) return x;
  Shape s;
  for (const int64_t p : perm) s.push_back(shape(x)[static_cast<int>(p)]);
  const Id y = add_value(dtype(x), s, quant(x));
  const std::vector<uint32_t> order(perm.begin(), perm.end());
  node(Type::XNNStaticTranspose, [=](Builder& b) {
    return fb_xnnpack::CreateXNNStaticTransposeDirect(b, static_cast<uint32_t>(order.size()), &order, x, y).Union();
  });
  return y;
}

XnnGraphWriter::Id XnnGraphWriter::reshape(Id x, const Shape& to) {
  if (shape(x) == to) return x;
  const Id y = add_value(dtype(x), to, quant(x));
  const std::vector<uint32_t> dims = dims_of(to);
  node(Type::XNNStaticReshape, [=](Builder& b) {
    return fb_xnnpack::CreateXNNStaticReshapeDirect(b, static_cast<uint32_t>(dims.size()), &dims, x, y).Union();
  });
  return y;
}

void XnnGraphWriter::set_outputs(std::span<const ValueId> ids) {
  for (const ValueId id : ids) {
    Id v = value(id);
    // An argument is no result: it is copied.
    if (values_[v].external != kXnnInvalidId || values_[v].contents)
      v = unary(Type::XNNCopy, v, dtype(v), Shape(shape(v)), quant(v));
    values_[v].flags = kOutput;
    values_[v].external = 0;
    outputs_.push_back(v);
  }
  // Nodes come to an end here, and with them the inputs: the results' places follow those.
  for (size_t i = 0; i < outputs_.size(); ++i)
    values_[outputs_[i]].external = static_cast<uint32_t>(inputs_.size() + i);
}

Offset<fb_xnnpack::XValue> XnnGraphWriter::file_value(Builder& b, Id id, uint32_t constant) const {
  using fb_xnnpack::XNNQuantParams;
  using fb_xnnpack::XValueUnion;
  const FileValue& v = values_[id];
  const std::vector<uint32_t> dims = dims_of(v.shape);
  const auto tensor = fb_xnnpack::CreateXNNTensorValueDirect(
      b, datatype_of(v.dtype, v.quant), static_cast<uint32_t>(dims.size()), &dims, constant, v.external, v.flags, id);
  if (!v.quant) return fb_xnnpack::CreateXValue(b, XValueUnion::XNNTensorValue, tensor.Union());
  XNNQuantParams kind = XNNQuantParams::PerTensorQuant;
  Offset<void> params = 0;
  if (v.quant->kind == Quantization::Kind::kPerToken) {
    kind = XNNQuantParams::PerTokenDynamicQuant;
    params = fb_xnnpack::CreatePerTokenDynamicQuant(b, v.quant->axis).Union();
  } else if (v.quant->kind == Quantization::Kind::kPerBlock) {
    kind = XNNQuantParams::PerChannelGroupQuant;
    // As float32, which every runtime reads; it makes them bfloat16, which hold them.
    params = fb_xnnpack::CreatePerChannelGroupQuantDirect(b, &v.quant->scales, 0, static_cast<int32_t>(v.quant->block))
                 .Union();
  } else if (v.quant->kind == Quantization::Kind::kPerAxis) {
    kind = XNNQuantParams::PerChannelQuant;
    params = fb_xnnpack::CreatePerChannelQuantDirect(b, &v.quant->scales, v.quant->axis).Union();
  } else {
    params = fb_xnnpack::CreatePerTensorQuant(b, v.quant->scale(), v.quant->zero_point()).Union();
  }
  return fb_xnnpack::CreateXValue(b, XValueUnion::XNNQuantizedTensorValue,
                                  fb_xnnpack::CreateXNNQuantizedTensorValue(b, tensor, kind, params).Union());
}

std::string XnnGraphWriter::finish(std::vector<NamedTensor>& named) const {
  Builder b;
  std::vector<Offset<fb_xnnpack::ConstantDataOffset>> constants{
      fb_xnnpack::CreateConstantDataOffsetDirect(b, 0, 0, "")};
  std::vector<Offset<fb_xnnpack::XValue>> values;
  for (Id id = 0; id < values_.size(); ++id) {
    uint32_t index = 0;
    if (values_[id].contents) {
      Tensor contents = values_[id].contents();
      const std::string key = key_of(contents);
      index = static_cast<uint32_t>(constants.size());
      constants.push_back(fb_xnnpack::CreateConstantDataOffsetDirect(b, UINT64_MAX, contents.bytes(), key.c_str()));
      if (std::ranges::find(named, key, &NamedTensor::key) == named.end()) named.push_back({key, std::move(contents)});
    }
    values.push_back(file_value(b, id, index));
  }
  std::vector<Offset<fb_xnnpack::XNode>> nodes;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const FileNode& n = nodes_[i];
    const auto table = n.table(b);
    const auto bounds =
        n.bounded ? fb_xnnpack::CreateOutputMinMax(b, n.bounds.lo, n.bounds.hi) : Offset<fb_xnnpack::OutputMinMax>(0);
    nodes.push_back(fb_xnnpack::CreateXNode(b, n.type, table, static_cast<uint32_t>(i), bounds));
  }
  std::vector<uint32_t> inputs;
  for (const ValueId id : inputs_) inputs.push_back(forms_.at(id).graph_order);
  const auto externals = static_cast<uint32_t>(inputs_.size() + outputs_.size());
  b.Finish(fb_xnnpack::CreateXNNGraphDirect(b, "0", &nodes, &values, externals, &inputs, &outputs_, nullptr, nullptr,
                                            &constants),
           "XN01");
  // Header: magic, its length, flatbuffer and constants. The constants are named data of the program.
  const uint32_t size = b.GetSize(), end = (static_cast<uint32_t>(kHeader) + size + 15) / 16 * 16;
  std::string blob(end, '\0');
  const auto put = [&](size_t at, uint64_t v, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) blob[at + i] = static_cast<char>(v >> (8 * i) & 0xff);
  };
  std::memcpy(blob.data() + 4, "XH00", 4);
  put(8, 30, 2);
  put(10, kHeader, 4);
  put(14, size, 4);
  put(18, end, 4);
  std::memcpy(blob.data() + kHeader, b.GetBufferPointer(), size);
  return blob;
}

}  // namespace smelt::executorch
