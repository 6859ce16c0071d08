#include "formats/common/lowering_context.h"

namespace smelt {

const ValueType& LoweringContext::type(ValueId id) const {
  static const ValueType unknown;
  return id == kNoValue ? unknown : builder_.type(id);
}

int LoweringContext::rank(ValueId id) const {
  const ValueType& t = type(id);
  return t.kind == ValueType::Kind::kTensor && t.ranked ? t.shape.rank() : -1;
}

int64_t LoweringContext::dim(ValueId id, int64_t axis) const {
  const ValueType& t = type(id);
  return t.ranked && axis >= 0 && axis < t.shape.rank() ? t.shape[static_cast<int>(axis)] : -1;
}

ValueId LoweringContext::add(Op op, AttrsPtr attrs, IntList inputs) {
  return ok() ? keep(builder_.op(op, std::move(attrs), inputs), kNoValue) : kNoValue;
}

ValueId LoweringContext::add_as(Op op, AttrsPtr attrs, IntList inputs, const ValueType& type) {
  return ok() ? keep(builder_.op_as(op, std::move(attrs), inputs, type), kNoValue) : kNoValue;
}

std::vector<ValueId> LoweringContext::add_n(Op op, AttrsPtr attrs, IntList inputs, int count) {
  std::vector<ValueId> none(static_cast<size_t>(count), kNoValue);
  return ok() ? keep(builder_.node(op, std::move(attrs), inputs, count), std::move(none)) : none;
}

void LoweringContext::add_to(Op op, AttrsPtr attrs, IntList inputs, IntList outputs) {
  if (!ok()) return;
  if (auto s = builder_.node_to(op, std::move(attrs), inputs, outputs); !s.ok()) fail(s.error());
}

ValueId LoweringContext::cast(ValueId x, DType to) { return dtype(x) == to ? x : add(Op::kCast, CastAttrs(to), {x}); }

ValueId LoweringContext::unary(Unary fn, ValueId x, double a, double b, double c) {
  return add(Op::kUnary, UnaryAttrs(fn, a, b, c), {x});
}

ValueId LoweringContext::binary(Binary fn, ValueId a, ValueId b, double alpha) {
  return add(Op::kBinary, BinaryAttrs(fn, Activation{}, alpha), {a, b});
}

ValueId LoweringContext::reshape(ValueId x, Int64List shape) { return reshape_to(x, i64(shape)); }

ValueId LoweringContext::transpose(ValueId x, Int64List perm) {
  return add(Op::kTranspose, TransposeAttrs(perm.copy()), {x});
}

ValueId LoweringContext::squeeze(ValueId x, Int64List axes) {
  return axes.empty() ? x : add(Op::kSqueeze, {x, i64(axes)});
}

ValueId LoweringContext::unsqueeze(ValueId x, Int64List axes) {
  return axes.empty() ? x : add(Op::kUnsqueeze, {x, i64(axes)});
}

ValueId LoweringContext::slice(ValueId x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  return add(Op::kSlice, {x, i64({start}), i64({end}), i64({axis}), i64({step})});
}

std::vector<ValueId> LoweringContext::split(ValueId x, int64_t axis, int count) {
  SplitAttrs a;
  a.axis = axis;
  a.count = count;
  return add_n(Op::kSplit, a, {x}, count);
}

ValueId LoweringContext::dims_of(ValueId x, int64_t start, int64_t end) {
  ShapeOfAttrs a;
  a.start = start;
  a.end = end;
  return add(Op::kShapeOf, a, {x});
}

ValueId LoweringContext::with_quant(ValueId x, QuantPtr quant) {
  if (!ok()) return kNoValue;
  if (const Tensor* t = constant_of(x)) {
    Tensor copy = *t;
    copy.set_quant(std::move(quant));
    return builder_.constant(builder_.graph().value(x).name, std::move(copy));
  }
  const ValueId y = add_as(Op::kBitCast, CastAttrs(dtype(x)), {x}, ValueType::tensor(dtype(x)));
  if (y != kNoValue) builder_.graph().value(y).type.quant = std::move(quant);
  return y;
}

}  // namespace smelt
