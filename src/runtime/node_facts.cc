#include "runtime/node_facts.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/core/op.h"
#include "ops/core/strided_copy.h"
#include "ops/detection/nms.h"
#include "ops/shape/shape.h"
#include "tensor/quant_params.h"

namespace smelt {

double elements_of(const ValueType& t) {
  double n = t.is_static() ? 1 : 0;
  for (int i = 0; n > 0 && i < t.shape.rank(); ++i) n *= static_cast<double>(t.shape[i]);
  return n;
}

double work(const Node& node, const TypeOf& type, std::span<const ValueType> outputs) {
  double n = 0;
  for (const ValueType& t : outputs) n += elements_of(t);
  const bool sums = node.op == Op::kConv || node.op == Op::kMatMul || node.op == Op::kConvTranspose;
  if (!sums || node.inputs.size() < 2 || node.inputs[1] == kNoValue) return n;
  return n * std::max<double>(1, std::sqrt(elements_of(type(node.inputs[1]))));
}

bool is_static(const Node& node, const TypeOf& type, std::span<const ValueType> outputs) {
  const uint32_t flags = op_info(node.op).flags;
  const bool may_be = node.op == Op::kStateRead || node.op == Op::kIndexTensors || node.op == Op::kNonMaxSuppression;
  if ((flags & (kControl | kContainer | kDynamic)) && !may_be) return false;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (node.outputs[i] != kNoValue && !outputs[i].is_static()) return false;
  return std::ranges::all_of(node.inputs, [&](ValueId id) { return id == kNoValue || type(id).is_static(); });
}

[[gnu::cold]] bool take_largest(const NodeSpec& node, std::vector<ValueType>& types) {
  if (!builds_op("NonMaxSuppression") || node.node.op != Op::kNonMaxSuppression) return false;
  const auto type = largest_selection(node);
  if (type) types[0] = *type;
  return type.has_value();
}

bool moves_nothing(const Node& node, const ValueType& from, const ValueType& to) {
  const Shape& x = from.shape;
  if (node.op == Op::kBitCast) return bit_width(from.dtype) == bit_width(to.dtype) && x == to.shape;
  if (node.op == Op::kExpand) return x == to.shape;
  if (node.op != Op::kTranspose || node.inputs.size() != 1) return false;
  const auto& perm = static_cast<const TransposeAttrs&>(*node.attrs).perm;
  if (static_cast<int>(perm.size()) != x.rank()) return false;
  int64_t before = -1;
  for (int64_t axis : perm) {
    if (axis < 0) axis += x.rank();
    if (x[static_cast<int>(axis)] == 1) continue;
    if (axis < before) return false;
    before = axis;
  }
  return true;
}

bool is_view(const Node& node, const TypeOf& type) {
  if (node.inputs.empty() || node.inputs[0] == kNoValue || node.outputs.empty() || node.outputs[0] == kNoValue)
    return false;
  const ValueType &from = type(node.inputs[0]), &to = type(node.outputs[0]);
  if (!from.is_static() || !to.is_static() || from.shape.elements() != to.shape.elements()) return false;
  return (op_info(node.op).flags & kView) != 0 || moves_nothing(node, from, to);
}

[[gnu::cold]] std::vector<int64_t> offsets_of_parts(const NodeSpec& spec) {
  if (std::ranges::find(kPartOps, std::pair(spec.node.op, true)) == std::end(kPartOps)) return {};
  const ValueType& x = spec.inputs[0];
  const auto all = strided_copies(spec);
  const int bits = bit_width(x.dtype);
  if (!all.ok() || bits < 8 || (x.quant && !is_per_tensor(x.quant))) return {};
  std::vector<int64_t> offsets(spec.outputs.size(), -1);
  for (const StridedCopy& c : all->copies) {
    const ValueType& y = spec.outputs[c.output];
    const bool stretch = c.dims.empty() || (c.dims.size() == 1 && c.in_strides[0] == 1 && c.out_strides[0] == 1);
    if (c.input != 0 || !stretch || c.elements() != y.shape.elements() || !same_quant_params(x.quant, y.quant))
      return {};
    offsets[c.output] = c.in_offset * bits / 8;
  }
  for (size_t i = 0; i < offsets.size(); ++i)
    if (spec.node.outputs[i] != kNoValue && offsets[i] < 0) return {};
  return offsets;
}

bool needs_float(const Node& node, const TypeOf& type, std::span<const ValueType> outputs) {
  if (op_info(node.op).flags & (kDataMovement | kQuantized | kEffect)) return false;
  return std::ranges::any_of(node.inputs, [&](ValueId id) { return id != kNoValue && type(id).quant; }) ||
         std::ranges::any_of(outputs, [](const ValueType& t) { return !!t.quant; });
}

}  // namespace smelt
