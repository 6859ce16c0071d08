#include "formats/executorch/xnnpack/lower.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "binary/xnnpack_graph_schema.h"
#include "formats/common/flatbuffer_attributes.h"
#include "formats/executorch/xnnpack/datatypes.h"
#include "ops/common/quantized_pair.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

Result<Activation> xnn_clamp(const fb_xnnpack::XNode& node) {
  if (!node.output_min_max()) return Activation{};
  const float lo = node.output_min_max()->output_min(), hi = node.output_min_max()->output_max();
  if (!(lo < hi)) return InvalidModel("output range ", lo, " to ", hi, " is not a range");
  return clamp_activation({lo, hi});
}

Activation clamp_activation(const Bounds& range) {
  if (std::isinf(range.lo) && std::isinf(range.hi)) return {};
  if (range.lo == 0 && std::isinf(range.hi)) return {ActKind::kRelu};
  if (range.lo == 0 && range.hi == 6) return {ActKind::kRelu6};
  return {ActKind::kClamp, range.lo, range.hi};
}

Result<int64_t> xnn_size(uint32_t value, const char* what, uint32_t least) {
  constexpr uint32_t kLargest = 1u << 30;
  if (value < least || value > kLargest)
    return InvalidModel(what, " is ", value, ", ", least, " to ", kLargest, " expected");
  return static_cast<int64_t>(value);
}

namespace {

/// The fields of a node's own type, and its range of outputs.
StatedAttributes stated_attributes(const fb_xnnpack::XNode& node) {
  auto out = union_attributes(xnnpack_graph_schema(), "fb_xnnpack.XNode", "xnode_union",
                              reinterpret_cast<const flatbuffers::Table&>(node));
  if (const auto* range = node.output_min_max()) {
    out.emplace_back("output_min", json_text(range->output_min()));
    out.emplace_back("output_max", json_text(range->output_max()));
  }
  return out;
}

}  // namespace

ValueId XnnLowering::operand(uint32_t id) {
  const size_t v = g_.by_id.at(id);
  if (ids_[v] == kNoValue && g_.values[v].constant.defined())
    ids_[v] = builder().constant(Cat("value ", id), g_.values[v].constant);
  return ids_[v];
}

ValueId convert(LoweringContext& c, ValueId value, const ValueType& to) {
  const ValueType from = c.type(value);
  if (!c.ok() || (from.dtype == to.dtype && from.quant == to.quant)) return value;
  const bool unquantized_integer = !from.quant && is_integer(from.dtype);
  if (to.quant) {
    if (unquantized_integer) value = c.add(Op::kCast, CastAttrs(DType::kF32), {value});
    ValueType result = ValueType::tensor(to.dtype);
    result.quant = to.quant;
    return c.add_as(Op::kQuantize, NoAttrs(), {value}, result);
  }
  if (from.quant) {
    const DType real = is_float(to.dtype) ? to.dtype : DType::kF32;
    value = c.add_as(Op::kDequantize, NoAttrs(), {value}, ValueType::tensor(real));
    if (real == to.dtype) return value;
  }
  CastAttrs cast(to.dtype);
  if (is_integer(to.dtype) && !unquantized_integer) {
    value = c.unary(Unary::kRound, value);
    cast.clamp = true;
  }
  return c.add(Op::kCast, cast, {value});
}

Status XnnLowering::bind(uint32_t id, ValueId result) {
  // Declared dimensions are upper bounds; none at all declare nothing.
  if (!ok()) return status();
  const Shape& declared = value(id).type.shape;
  const ValueType& t = type(result);
  if (declared.rank() > 0 && t.ranked && t.shape.is_static() && t.shape.elements() > declared.elements())
    return InvalidModel("value ", id, " becomes ", t.shape.str(), ", the graph declares ", declared.str());
  ids_[g_.by_id.at(id)] = result;
  return Ok();
}

bool XnnLowering::static_bytes(const XnnValue& a, const XnnValue& b) {
  const auto is_static_byte = [](const ValueType& t) {
    return is_8bit(t.dtype) && t.quant && t.quant->kind == Quantization::Kind::kPerTensor;
  };
  return is_static_byte(a.type) && is_static_byte(b.type) && a.type.dtype == b.type.dtype;
}

bool XnnLowering::computes_in_integers(std::span<const uint32_t> inputs, uint32_t out) const {
  const auto integers = [&](uint32_t id) {
    const ValueType& t = value(id).type;
    return is_integer(t.dtype) && (!t.quant || t.quant->kind != Quantization::Kind::kPerToken) &&
           !value(id).dynamic_on_entry && (t.quant == nullptr) == (value(out).type.quant == nullptr);
  };
  for (uint32_t id : inputs)
    if (!integers(id)) return false;
  return integers(out);
}

DType XnnLowering::compute_type(uint32_t out) const {
  const DType dtype = value(out).type.dtype;
  return is_float(dtype) ? dtype : DType::kF32;
}

Status XnnLowering::finish(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, const ValueType& compute, uint32_t out) {
  ValueType type = ValueType::tensor(compute.dtype);
  type.quant = compute.quant;
  return bind(out, convert(*this, add_as(op, std::move(attrs), inputs, type), value(out).type));
}

Status XnnLowering::emit(Op op, AttrsPtr attrs, std::span<const uint32_t> inputs, uint32_t out,
                         std::vector<ValueId> further) {
  std::vector<ValueId> operands;
  ValueType compute = value(out).type;
  if (computes_in_integers(inputs, out)) {
    for (uint32_t id : inputs) operands.push_back(operand(id));
  } else {
    compute = ValueType::tensor(compute_type(out));
    for (uint32_t id : inputs) operands.push_back(real(id, compute.dtype));
  }
  operands.insert(operands.end(), further.begin(), further.end());
  return finish(op, std::move(attrs), std::move(operands), compute, out);
}

Status XnnLowering::find_merged_clamps() {
  using enum XNodeUnion;
  std::unordered_map<uint32_t, int> readers;
  std::unordered_map<uint32_t, XNodeUnion> producers;
  std::vector<const Node*> clamps;
  for (const uint32_t n : g_.order) {
    const Node& node = *g_.table->xnodes()->Get(n);
    SMELT_ASSIGN(const XnnPorts ports, ports_of(node));
    for (const uint32_t id : ports.inputs) ++readers[id];
    for (const uint32_t id : ports.outputs) producers[id] = node.xnode_union_type();
    if (node.xnode_union_type() == XNNClamp) clamps.push_back(&node);
  }
  for (const Node* clamp : clamps) {
    const auto& n = *static_cast<const fb_xnnpack::_XNNNode1x1*>(clamp->xnode_union());
    const XnnValue &x = value(n.input_id()), &y = value(n.output_id());
    const auto producer = producers.find(x.id);
    if (producer == producers.end() || readers[x.id] != 1 || x.output || !static_bytes(x, y)) continue;
    const XNodeUnion type = producer->second;
    if (type != XNNConv2d && type != XNNDepthwiseConv2d && type != XNNConvTranspose2d && type != XNNFullyConnected)
      continue;
    merged_clamps_[x.id] = clamp;
    producers[y.id] = type;
  }
  return Ok();
}

Result<Activation> XnnLowering::clamp_of_product(const Node& node, uint32_t& out) const {
  SMELT_ASSIGN(Activation act, xnn_clamp(node));
  for (auto next = merged_clamps_.find(out); next != merged_clamps_.end(); next = merged_clamps_.find(out)) {
    SMELT_ASSIGN(const Activation then, xnn_clamp(*next->second));
    const Bounds range = activation_bounds(act), bounds = activation_bounds(then);
    act = clamp_activation({std::clamp(range.lo, bounds.lo, bounds.hi), std::clamp(range.hi, bounds.lo, bounds.hi)});
    out = static_cast<const fb_xnnpack::_XNNNode1x1*>(next->second->xnode_union())->output_id();
  }
  return act;
}

Status XnnLowering::lower_node(const Node& node) {
  SMELT_TRY(check_datatypes(g_, node));
  using enum XNodeUnion;
  static constexpr std::pair<XNodeUnion, Status (XnnLowering::*)(const Node&)> kLowerings[] = {
      {XNNAdd, &XnnLowering::binary_node},
      {XNNSubtract, &XnnLowering::binary_node},
      {XNNMultiply, &XnnLowering::binary_node},
      {XNNDiv, &XnnLowering::binary_node},
      {XNNMinimum, &XnnLowering::binary_node},
      {XNNMaximum, &XnnLowering::binary_node},
      {XNNPReLU, &XnnLowering::binary_node},
      {XNNConvert, &XnnLowering::convert_node},
      {XNNFullyConnected, &XnnLowering::fully_connected},
      {XNNConv2d, &XnnLowering::convolution},
      {XNNDepthwiseConv2d, &XnnLowering::convolution},
      {XNNConvTranspose2d, &XnnLowering::convolution},
      {XNNBatchMatrixMultiply, &XnnLowering::batch_matmul},
      {XNNScaledDotProductAttention, &XnnLowering::attention},
      {XNNAvgPooling2d, &XnnLowering::pooling},
      {XNNMaxPooling2d, &XnnLowering::pooling},
      {XNNArgMaxPooling2d, &XnnLowering::argmax_pooling},
      {XNNGlobalAvgPooling2d, &XnnLowering::global_average},
      {XNNStaticResizeBilinear2D, &XnnLowering::resize_node},
      {XNNStaticTranspose, &XnnLowering::transpose_node},
      {XNNStaticReshape, &XnnLowering::reshape_node},
      {XNNStaticSlice, &XnnLowering::slice_node},
      {XNNStaticConstantPad, &XnnLowering::pad_node},
      {XNNConcatenate2, &XnnLowering::concat_node},
      {XNNConcatenate3, &XnnLowering::concat_node},
      {XNNConcatenate4, &XnnLowering::concat_node},
      {XNNConcatenate5, &XnnLowering::concat_node}};
  for (const auto& [type, lower] : kLowerings)
    if (type == node.xnode_union_type()) return (this->*lower)(node);
  return unary_node(node);
}

Result<std::vector<ValueId>> XnnLowering::run(std::span<const ValueId> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    const XnnValue& v = g_.values[g_.inputs[i]];
    ValueId id = inputs[i];
    if (v.dynamic_on_entry) {
      ValueType per_token = ValueType::tensor(DType::kI8);
      per_token.quant = per_slice_quant(1);
      builder().at("XNNConvert", "", Cat("input ", i));
      id = convert(*this, id, per_token);
    }
    ids_[g_.inputs[i]] = id;
  }
  SMELT_TRY(status());
  SMELT_TRY(find_merged_clamps());
  for (uint32_t n : g_.order) {
    const Node& node = *g_.table->xnodes()->Get(n);
    const char* origin = fb_xnnpack::EnumNameXNodeUnion(node.xnode_union_type());
    builder().at(origin, Cat(origin, "_", node.debug_handle()), Cat("node ", n));
    if (auto* wanted = FileAttributes::wanted()) wanted->record(builder(), Cat("node ", n), stated_attributes(node));
    if (auto s = lower_node(node); !s.ok()) return s.error().within(xnn_node_label(g_, n));
  }
  std::vector<ValueId> outputs;
  for (size_t v : g_.outputs) {
    const ValueId id = operand(g_.values[v].id);
    if (id == kNoValue) return InvalidModel("value ", v, ", an output, is never computed");
    outputs.push_back(id);
  }
  return outputs;
}

}  // namespace smelt::executorch
