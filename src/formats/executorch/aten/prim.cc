// Arithmetic on symbolic integers, sizes, views: executorch_prim and aten::sym_*. Results are scalar tensors of int64,
// float64 or bool.
#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// A number as a scalar tensor of int64, float64 or bool.
ValueId scalar(L& l, size_t at) {
  const Arg& a = l.arg(at);
  switch (a.kind) {
    case Arg::Kind::kInt:
      return l.integer(DType::kI64, a.i);
    case Arg::Kind::kDouble:
      return l.number(DType::kF64, a.d);
    case Arg::Kind::kBool:
      return l.integer(DType::kBool, a.i);
    case Arg::Kind::kSymbol:
    case Arg::Kind::kTensor: {
      const DType d = l.dtype(a.id);
      return l.cast(a.id, d == DType::kBool ? d : is_float(d) ? DType::kF64 : DType::kI64);
    }
    default:
      l.fail(InvalidModel("argument ", at, " must be a number"));
      return kNoValue;
  }
}

/// Both operands in one type: float64 when either is real.
std::pair<ValueId, ValueId> scalars(L& l) {
  const ValueId a = scalar(l, 0), b = scalar(l, 1);
  const bool real = l.dtype(a) == DType::kF64 || l.dtype(b) == DType::kF64;
  const DType to = real ? DType::kF64 : DType::kI64;
  return {l.cast(a, to), l.cast(b, to)};
}

template <Binary fn>
void both(L& l) {
  const auto [a, b] = scalars(l);
  l.result(l.binary(fn, a, b));
}

/// Floor division; a real quotient is an integer again.
void floordiv(L& l) {
  const auto [a, b] = scalars(l);
  if (l.c.overload == "int") return l.result(l.binary(Binary::kDiv, a, b));
  l.result(l.cast(l.binary(Binary::kFloorDiv, a, b), DType::kI64));
}

void truediv(L& l) {
  const auto [a, b] = scalars(l);
  l.result(l.binary(Binary::kDiv, l.cast(a, DType::kF64), l.cast(b, DType::kF64)));
}

template <Unary fn>
void to_integer(L& l) {
  const ValueId x = scalar(l, 0);
  l.result(l.dtype(x) == DType::kF64 ? l.cast(l.unary(fn, x), DType::kI64) : l.cast(x, DType::kI64));
}

void sym_ite(L& l) {
  const ValueId condition = l.cast(scalar(l, 0), DType::kBool), a = scalar(l, 1), b = scalar(l, 2);
  const DType to = l.dtype(a) == l.dtype(b) ? l.dtype(a) : promote(l.dtype(a), l.dtype(b));
  l.result(l.where(condition, l.cast(a, to), l.cast(b, to)));
}

/// One dimension of x as a scalar.
void sym_size(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(1), l.rank(x));
  if (l.dim(x, axis) >= 0) return l.result(l.integer(DType::kI64, l.dim(x, axis)));
  ShapeOfAttrs a;
  a.start = axis;
  a.end = axis + 1;
  l.result(l.reshape(l.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(a), {x}), {}));
}

void sym_numel(L& l) { l.result(l.op(Op::kSizeOf, make_attrs<ShapeOfAttrs>(), {l.t(0)})); }

/// The one element of a tensor as a number.
void item(L& l) {
  const ValueId x = l.t(0);
  const DType d = l.dtype(x);
  const ValueId y = l.cast(x, d == DType::kBool ? d : is_float(d) ? DType::kF64 : DType::kI64);
  l.result(l.reshape(y, {}));
}

/// et_view(self, size): the same elements under another shape.
void et_view(L& l) { l.result(l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.t(0), l.int_vector(1)})); }

/// et_copy_index(copy_to, copy_from, index): copy_to cut to `index` rows, then copy_from as one more row.
void et_copy_index(L& l) {
  const ValueId to = l.t(0), from = l.t(1), index = l.int_value(2);
  const ValueId end = l.reshape(index, {1});
  const ValueId kept = l.op(Op::kSlice, make_attrs<NoAttrs>(), {to, l.b.i64({0}), end, l.b.i64({0}), l.b.i64({1})});
  const ValueId row = l.unsqueeze(l.cast(from, l.dtype(to)), {0});
  l.lowered.mutated.emplace_back(0, l.op(Op::kConcat, make_attrs<AxisAttrs>(0), {kept, row}));
}

constexpr Entry kEntries[] = {
    {"executorch_prim::add", both<Binary::kAdd>},
    {"executorch_prim::sub", both<Binary::kSub>},
    {"executorch_prim::mul", both<Binary::kMul>},
    {"executorch_prim::floordiv", floordiv},
    {"executorch_prim::truediv", truediv},
    {"executorch_prim::mod", both<Binary::kFmod>},
    {"executorch_prim::eq", both<Binary::kEqual>},
    {"executorch_prim::ne", both<Binary::kNotEqual>},
    {"executorch_prim::gt", both<Binary::kGreater>},
    {"executorch_prim::lt", both<Binary::kLess>},
    {"executorch_prim::ge", both<Binary::kGreaterEqual>},
    {"executorch_prim::le", both<Binary::kLessEqual>},
    {"executorch_prim::sym_max", both<Binary::kMax>},
    {"executorch_prim::sym_min", both<Binary::kMin>},
    {"executorch_prim::neg", [](L& l) { l.result(l.unary(Unary::kNeg, scalar(l, 0))); }},
    {"executorch_prim::sym_float", [](L& l) { l.result(l.cast(scalar(l, 0), DType::kF64)); }},
    {"executorch_prim::sym_int", to_integer<Unary::kTrunc>},
    {"executorch_prim::ceil", to_integer<Unary::kCeil>},
    {"executorch_prim::round", to_integer<Unary::kRound>},
    {"executorch_prim::trunc", to_integer<Unary::kTrunc>},
    {"executorch_prim::floor", to_integer<Unary::kFloor>},
    {"executorch_prim::sym_not", [](L& l) { l.result(l.unary(Unary::kNot, l.cast(scalar(l, 0), DType::kBool))); }},
    {"executorch_prim::sym_ite", sym_ite},
    {"executorch_prim::et_view", et_view},
    {"executorch_prim::et_copy_index", et_copy_index},
    {"aten::sym_size", sym_size},
    {"aten::sym_numel", sym_numel},
    {"aten::_local_scalar_dense", item},
    {"aten::item", item},
    {"aten::floordiv", floordiv},
    {"aten::truediv", truediv},
    {"aten::sym_max", both<Binary::kMax>},
    {"aten::sym_min", both<Binary::kMin>},
    {"aten::sym_float", [](L& l) { l.result(l.cast(scalar(l, 0), DType::kF64)); }},
};

}  // namespace

std::span<const Entry> prim_entries() { return kEntries; }

}  // namespace smelt::aten
