#include "base/error.h"
#include "formats/executorch/xnnpack/lower.h"
#include "ops/elementwise/elementwise.h"
#include "ops/softmax/softmax.h"

namespace smelt::executorch {

using fb_xnnpack::XNodeUnion;

namespace {

/// Functions of nodes without parameters; kCount for others.
Unary plain_unary(XNodeUnion type) {
  switch (type) {
    case XNodeUnion::XNNSigmoid:
      return Unary::kSigmoid;
    case XNodeUnion::XNNFloor:
      return Unary::kFloor;
    case XNodeUnion::XNNCeiling:
      return Unary::kCeil;
    case XNodeUnion::XNNSquareRoot:
      return Unary::kSqrt;
    case XNodeUnion::XNNReciprocalSquareRoot:
      return Unary::kRsqrt;
    case XNodeUnion::XNNHardswish:
      return Unary::kHardSwish;
    case XNodeUnion::XNNNegate:
      return Unary::kNeg;
    case XNodeUnion::XNNSquare:
      return Unary::kSquare;
    case XNodeUnion::XNNAbs:
      return Unary::kAbs;
    case XNodeUnion::XNNLog:
      return Unary::kLog;
    case XNodeUnion::XNNGelu:
      return Unary::kGelu;
    case XNodeUnion::XNNTanh:
      return Unary::kTanh;
    case XNodeUnion::XNNExp:
      return Unary::kExp;
    case XNodeUnion::XNNSin:
      return Unary::kSin;
    case XNodeUnion::XNNCos:
      return Unary::kCos;
    case XNodeUnion::XNNCopy:
      return Unary::kIdentity;
    default:
      return Unary::kCount;
  }
}

Binary binary_function(XNodeUnion type) {
  switch (type) {
    case XNodeUnion::XNNSubtract:
      return Binary::kSub;
    case XNodeUnion::XNNMultiply:
      return Binary::kMul;
    case XNodeUnion::XNNDiv:
      return Binary::kDiv;
    case XNodeUnion::XNNMinimum:
      return Binary::kMin;
    case XNodeUnion::XNNMaximum:
      return Binary::kMax;
    case XNodeUnion::XNNPReLU:
      return Binary::kPRelu;
    default:
      return Binary::kAdd;
  }
}

}  // namespace

Status XnnLowering::unary(const Node& node) {
  const XNodeUnion type = node.xnode_union_type();
  if (type == XNodeUnion::XNNLeakyReLU) {
    const auto& n = *node.xnode_union_as_XNNLeakyReLU();
    const uint32_t in[] = {n.input_id()};
    return emit(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kLeakyRelu, n.negative_slope()), in, n.output_id());
  }
  if (type == XNodeUnion::XNNELU) {
    const auto& n = *node.xnode_union_as_XNNELU();
    const uint32_t in[] = {n.input_id()};
    return emit(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kElu, n.alpha(), 1, 1), in, n.output_id());
  }
  const auto& n = *static_cast<const fb_xnnpack::_XNNNode1x1*>(node.xnode_union());
  const uint32_t in[] = {n.input_id()};
  if (type == XNodeUnion::XNNSoftmax) return emit(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), in, n.output_id());
  if (type == XNodeUnion::XNNClamp) {
    SMELT_ASSIGN(const Activation act, xnn_clamp(node));
    const Bounds range = activation_bounds(act);
    return emit(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kClamp, range.lo, range.hi), in, n.output_id());
  }
  const Unary fn = plain_unary(type);
  if (fn == Unary::kCount) return Unsupported("this operator has no lowering");
  return emit(Op::kUnary, make_attrs<UnaryAttrs>(fn), in, n.output_id());
}

Status XnnLowering::binary(const Node& node) {
  const XNodeUnion type = node.xnode_union_type();
  const auto& n = *static_cast<const fb_xnnpack::_XNNNode2x1*>(node.xnode_union());
  const uint32_t in[] = {n.input1_id(), n.input2_id()};
  auto attrs = std::make_shared<BinaryAttrs>(binary_function(type));
  const bool clamps = type == XNodeUnion::XNNAdd || type == XNodeUnion::XNNSubtract ||
                      type == XNodeUnion::XNNMultiply || type == XNodeUnion::XNNDiv;
  if (clamps) {
    SMELT_ASSIGN(attrs->act, xnn_clamp(node));
  }
  if (type == XNodeUnion::XNNDiv && value(n.output_id()).datatype == fb_xnnpack::XNNDatatype::xnn_datatype_int32)
    return integer_division(n, attrs->act);
  return emit(Op::kBinary, std::move(attrs), in, n.output_id());
}

/// Integers divide so that the remainder is never negative; by zero, to zero.
Status XnnLowering::integer_division(const fb_xnnpack::_XNNNode2x1& n, const Activation& act) {
  const ValueId a = operand(n.input1_id()), b = operand(n.input2_id());
  SMELT_ASSIGN(const ValueId size, b_.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), {b}));
  SMELT_ASSIGN(const ValueId sign, b_.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kSign), {b}));
  SMELT_ASSIGN(const ValueId floored, b_.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kFloorDiv), {a, size}));
  return finish(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul, act), {floored, sign}, value(n.output_id()).type,
                n.output_id());
}

Status XnnLowering::convert_node(const Node& node) {
  const auto& n = *node.xnode_union_as_XNNConvert();
  SMELT_ASSIGN(ValueId result, convert(b_, operand(n.input_id()), value(n.output_id()).type));
  if (result == operand(n.input_id())) {
    SMELT_ASSIGN(result, b_.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIdentity), {result}));
  }
  return bind(n.output_id(), result);
}

}  // namespace smelt::executorch
