// Arithmetic on symbolic integers, sizes, views: executorch_prim and aten::sym_*. Results are scalar tensors of int64,
// float64 or bool.
#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// A number as a scalar tensor of int64, float64 or bool.
ValueId scalar(CallContext& c, size_t at) {
  const Arg& a = c.arg(at);
  switch (a.kind) {
    case Arg::Kind::kInt:
      return c.integer(DType::kI64, a.i);
    case Arg::Kind::kDouble:
      return c.number(DType::kF64, a.d);
    case Arg::Kind::kBool:
      return c.integer(DType::kBool, a.i);
    case Arg::Kind::kSymbol:
    case Arg::Kind::kTensor: {
      const DType d = c.dtype(a.id);
      return c.cast(a.id, d == DType::kBool ? d : is_float(d) ? DType::kF64 : DType::kI64);
    }
    default:
      c.fail("argument ", at, " must be a number");
      return kNoValue;
  }
}

/// Both operands in one type: float64 when either is real.
std::pair<ValueId, ValueId> scalars(CallContext& c) {
  const ValueId a = scalar(c, 0), b = scalar(c, 1);
  const bool real = c.dtype(a) == DType::kF64 || c.dtype(b) == DType::kF64;
  const DType to = real ? DType::kF64 : DType::kI64;
  return {c.cast(a, to), c.cast(b, to)};
}

template <Binary fn>
void both(CallContext& c) {
  const auto [a, b] = scalars(c);
  c.result(c.binary(fn, a, b));
}

/// Floor division; a real quotient is an integer again.
void floordiv(CallContext& c) {
  const auto [a, b] = scalars(c);
  if (c.call.overload == "int") return c.result(c.binary(Binary::kDiv, a, b));
  c.result(c.cast(c.binary(Binary::kFloorDiv, a, b), DType::kI64));
}

void truediv(CallContext& c) {
  const auto [a, b] = scalars(c);
  c.result(c.binary(Binary::kDiv, c.cast(a, DType::kF64), c.cast(b, DType::kF64)));
}

template <Unary fn>
void to_integer(CallContext& c) {
  const ValueId x = scalar(c, 0);
  c.result(c.dtype(x) == DType::kF64 ? c.cast(c.unary(fn, x), DType::kI64) : c.cast(x, DType::kI64));
}

void sym_ite(CallContext& c) {
  const ValueId condition = c.cast(scalar(c, 0), DType::kBool), a = scalar(c, 1), b = scalar(c, 2);
  const DType to = c.dtype(a) == c.dtype(b) ? c.dtype(a) : promote(c.dtype(a), c.dtype(b));
  c.result(c.where(condition, c.cast(a, to), c.cast(b, to)));
}

/// One dimension of x as a scalar.
void sym_size(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(1), c.rank(x));
  if (c.dim(x, axis) >= 0) return c.result(c.integer(DType::kI64, c.dim(x, axis)));
  c.result(c.reshape(c.dims_of(x, axis, axis + 1), {}));
}

void sym_numel(CallContext& c) { c.emit(Op::kSizeOf, ShapeOfAttrs(), {c.t(0)}); }

/// The one element of a tensor as a number.
void item(CallContext& c) {
  const ValueId x = c.t(0);
  const DType d = c.dtype(x);
  const ValueId y = c.cast(x, d == DType::kBool ? d : is_float(d) ? DType::kF64 : DType::kI64);
  c.result(c.reshape(y, {}));
}

/// et_view(self, size): the same elements under another shape.
void et_view(CallContext& c) { c.result(c.reshape_to(c.t(0), c.int_vector(1))); }

/// et_copy_index(copy_to, copy_from, index): copy_to cut to `index` rows, then copy_from as one more row.
void et_copy_index(CallContext& c) {
  const ValueId to = c.t(0), from = c.t(1), index = c.int_value(2);
  const ValueId end = c.reshape(index, {1});
  const ValueId kept = c.add(Op::kSlice, {to, c.i64({0}), end, c.i64({0}), c.i64({1})});
  const ValueId row = c.unsqueeze(c.cast(from, c.dtype(to)), {0});
  c.lowered.mutated.emplace_back(0, c.concat({kept, row}, 0));
}

constexpr OpEntry kEntries[] = {
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
    {"executorch_prim::neg", [](CallContext& c) { c.result(c.unary(Unary::kNeg, scalar(c, 0))); }},
    {"executorch_prim::sym_float", [](CallContext& c) { c.result(c.cast(scalar(c, 0), DType::kF64)); }},
    {"executorch_prim::sym_int", to_integer<Unary::kTrunc>},
    {"executorch_prim::ceil", to_integer<Unary::kCeil>},
    {"executorch_prim::round", to_integer<Unary::kRound>},
    {"executorch_prim::trunc", to_integer<Unary::kTrunc>},
    {"executorch_prim::floor", to_integer<Unary::kFloor>},
    {"executorch_prim::sym_not",
     [](CallContext& c) { c.result(c.unary(Unary::kNot, c.cast(scalar(c, 0), DType::kBool))); }},
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
    {"aten::sym_float", [](CallContext& c) { c.result(c.cast(scalar(c, 0), DType::kF64)); }},
};

}  // namespace

std::span<const OpEntry> prim_entries() { return kEntries; }

}  // namespace smelt::aten
