#include <cmath>
#include <utility>

#include "formats/executorch/xnnpack/lower.h"
#include "ops/softmax/softmax.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

namespace {

/// Functions of nodes without parameters; kCount for others.
Unary unary_function(XNodeUnion type) {
  using enum XNodeUnion;
  static constexpr std::pair<XNodeUnion, Unary> kFunctions[] = {
      {XNNSigmoid, Unary::kSigmoid}, {XNNFloor, Unary::kFloor}, {XNNCeiling, Unary::kCeil},
      {XNNSquareRoot, Unary::kSqrt}, {XNNNegate, Unary::kNeg},  {XNNReciprocalSquareRoot, Unary::kRsqrt},
      {XNNSquare, Unary::kSquare},   {XNNAbs, Unary::kAbs},     {XNNHardswish, Unary::kHardSwish},
      {XNNLog, Unary::kLog},         {XNNGelu, Unary::kGelu},   {XNNTanh, Unary::kTanh},
      {XNNExp, Unary::kExp},         {XNNSin, Unary::kSin},     {XNNCos, Unary::kCos},
      {XNNCopy, Unary::kIdentity}};
  for (const auto& [node, fn] : kFunctions)
    if (node == type) return fn;
  return Unary::kCount;
}

Binary binary_function(XNodeUnion type) {
  using enum XNodeUnion;
  static constexpr std::pair<XNodeUnion, Binary> kFunctions[] = {
      {XNNSubtract, Binary::kSub}, {XNNMultiply, Binary::kMul}, {XNNDiv, Binary::kDiv},
      {XNNMinimum, Binary::kMin},  {XNNMaximum, Binary::kMax},  {XNNPReLU, Binary::kPRelu}};
  for (const auto& [node, fn] : kFunctions)
    if (node == type) return fn;
  return Binary::kAdd;
}

}  // namespace

Status XnnLowering::emit_unary(UnaryAttrs attrs, uint32_t input, uint32_t output) {
  attrs.rounding = Rounding::kXnnpack;
  return emit(Op::kUnary, std::move(attrs), {input}, output);
}

Status XnnLowering::unary_node(const Node& node) {
  const XNodeUnion type = node.xnode_union_type();
  if (const auto* n = node.xnode_union_as_XNNLeakyReLU()) {
    if (!std::isfinite(n->negative_slope())) return InvalidModel("negative slope ", n->negative_slope());
    return emit_unary(UnaryAttrs(Unary::kLeakyRelu, n->negative_slope()), n->input_id(), n->output_id());
  }
  if (const auto* n = node.xnode_union_as_XNNELU()) {
    if (!std::isnormal(n->alpha()) || n->alpha() < 0) return InvalidModel("alpha ", n->alpha());
    return emit_unary(UnaryAttrs(Unary::kElu, n->alpha(), 1, 1), n->input_id(), n->output_id());
  }
  const auto& n = *static_cast<const fb_xnnpack::_XNNNode1x1*>(node.xnode_union());
  if (type == XNodeUnion::XNNSoftmax) return emit(Op::kSoftmax, SoftmaxAttrs(), {n.input_id()}, n.output_id());
  if (type == XNodeUnion::XNNClamp) {
    if (merged_clamps_.contains(n.input_id())) return Ok();
    SMELT_ASSIGN(const Activation act, xnn_clamp(node));
    const Bounds range = activation_bounds(act);
    return emit_unary(UnaryAttrs(Unary::kClamp, range.lo, range.hi), n.input_id(), n.output_id());
  }
  const Unary fn = unary_function(type);
  if (fn == Unary::kCount) return Unsupported("this operator has no lowering");
  return emit_unary(UnaryAttrs(fn), n.input_id(), n.output_id());
}

Status XnnLowering::binary_node(const Node& node) {
  const XNodeUnion type = node.xnode_union_type();
  const auto& n = *static_cast<const fb_xnnpack::_XNNNode2x1*>(node.xnode_union());
  BinaryAttrs a(binary_function(type));
  a.rounding = Rounding::kXnnpack;
  const bool clamps = type == XNodeUnion::XNNAdd || type == XNodeUnion::XNNSubtract ||
                      type == XNodeUnion::XNNMultiply || type == XNodeUnion::XNNDiv;
  if (clamps) {
    SMELT_ASSIGN(a.act, xnn_clamp(node));
  }
  if (type == XNodeUnion::XNNDiv && value(n.output_id()).datatype == fb_xnnpack::XNNDatatype::xnn_datatype_int32)
    return integer_division(n, a.act);
  return emit(Op::kBinary, a, {n.input1_id(), n.input2_id()}, n.output_id());
}

/// Integers divide so that the remainder is never negative; by zero, to zero.
Status XnnLowering::integer_division(const fb_xnnpack::_XNNNode2x1& n, const Activation& act) {
  const ValueId a = operand(n.input1_id()), b = operand(n.input2_id());
  const ValueId floored = binary(Binary::kFloorDiv, a, unary(Unary::kAbs, b));
  return finish(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul, act), {floored, unary(Unary::kSign, b)},
                value(n.output_id()).type, n.output_id());
}

Status XnnLowering::convert_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNConvert();
  if (static_bytes(value(n.input_id()), value(n.output_id())))
    return emit_unary(UnaryAttrs(Unary::kIdentity), n.input_id(), n.output_id());
  const ValueId x = operand(n.input_id()), y = convert(*this, x, value(n.output_id()).type);
  return bind(n.output_id(), y == x ? unary(Unary::kIdentity, y) : y);
}

}  // namespace smelt::executorch
