// Factories: constants, ranges, random values.
#include <cmath>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"
#include "tensor/numeric.h"

namespace smelt::aten {
namespace {

/// The element type of a factory's result: declared, or the functional form's dtype argument, or the default.
DType made_type(L& l, size_t dtype_at, DType otherwise) {
  if (l.out_dtype() != DType::kInvalid) return l.out_dtype();
  if (!l.c.out_variant && l.arg(dtype_at).kind == Arg::Kind::kInt)
    if (const DType d = scalar_type(l.i(dtype_at)); d != DType::kInvalid) return d;
  return otherwise;
}

void fill_with(L& l, ValueId shape, DType to, const L::Operand& value) {
  l.result(l.op(Op::kFill, make_attrs<NoAttrs>(), {shape, l.as(value, to)}));
}

DType number_type(const L::Operand& v) { return v.kind == DType::kInvalid ? DType::kF32 : v.kind; }

/// full(size, value), new_full(self, size, value).
void full(L& l) { fill_with(l, l.int_vector(0), made_type(l, 2, number_type(l.operand(1))), l.operand(1)); }
void new_full(L& l) { fill_with(l, l.int_vector(1), made_type(l, 3, l.dtype(l.t(0))), l.operand(2)); }
void full_like(L& l) { fill_with(l, l.shape_of(l.t(0)), made_type(l, 2, l.dtype(l.t(0))), l.operand(1)); }
/// fill(self, value): a number or a scalar tensor.
void fill(L& l) {
  const ValueId x = l.t(0);
  fill_with(l, l.shape_of(x), l.dtype(x), l.operand(1));
}

template <int value>
void filled(L& l) {
  const DType to = made_type(l, 1, DType::kF32);
  l.result(l.fill(l.int_vector(0), to, value));
}
template <int value>
void filled_like(L& l) {
  const DType to = made_type(l, 1, l.dtype(l.t(0)));
  l.result(l.fill(l.shape_of(l.t(0)), to, value));
}
template <int value>
void new_filled(L& l) {
  const DType to = made_type(l, 2, l.dtype(l.t(0)));
  l.result(l.fill(l.int_vector(1), to, value));
}

void scalar_tensor(L& l) {
  const L::Operand v = l.operand(0);
  const ValueId y = l.as(v, made_type(l, 1, number_type(v)));
  l.result(l.type(y).ranked && l.type(y).shape.rank() == 0 ? y : l.reshape(y, {}));
}

/// The numbers of a range when all bounds are known: computed in double, or in int64 when all of them are integers.
void range(L& l, size_t start_at, size_t end_at, size_t step_at, size_t dtype_at) {
  const auto known = [&](size_t at) {
    const Arg::Kind k = l.arg(at).kind;
    return at == SIZE_MAX || k == Arg::Kind::kInt || k == Arg::Kind::kDouble || k == Arg::Kind::kNone;
  };
  bool real = false;
  for (size_t at : {start_at, end_at, step_at}) real = real || (at != SIZE_MAX && l.arg(at).kind == Arg::Kind::kDouble);
  const DType to = made_type(l, dtype_at, real ? DType::kF32 : DType::kI64);
  if (!known(start_at) || !known(end_at) || !known(step_at)) {
    const auto bound = [&](size_t at, int64_t otherwise) {
      return at == SIZE_MAX ? l.integer(DType::kI64, otherwise) : l.int_value(at, otherwise);
    };
    const ValueId all =
        l.op(Op::kRange, make_attrs<NoAttrs>(), {bound(start_at, 0), bound(end_at, 0), bound(step_at, 1)});
    return l.result(l.cast(all, to));
  }
  const double start = start_at == SIZE_MAX ? 0 : l.d(start_at, 0), end = l.d(end_at);
  const double step = step_at == SIZE_MAX ? 1 : l.d(step_at, 1);
  if (!l.ok()) return;
  if (step == 0 || !std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step))
    return l.fail(InvalidModel("arange from ", start, " to ", end, " by ", step));
  const double count = std::max(0.0, std::ceil((end - start) / step));
  if (count > (1 << 26)) return l.fail(LimitReached("arange of ", count, " elements"));
  Tensor values(to, Shape{static_cast<int64_t>(count)});
  for (int64_t k = 0; k < values.elements(); ++k) {
    const double v = start + static_cast<double>(k) * step;
    if (is_integer(to))
      set_int(values, k, real ? static_cast<int64_t>(v) : static_cast<int64_t>(start) + k * static_cast<int64_t>(step));
    else
      set_double(values, k, v);
  }
  l.result(l.b.constant("", std::move(values)));
}

/// arange(end), arange.start(start, end), arange.start_step(start, end, step).
void arange(L& l) {
  const bool has_start = l.c.overload.starts_with("start");
  if (!has_start) return range(l, SIZE_MAX, 0, SIZE_MAX, 1);
  const bool has_step = l.c.overload != "start";
  range(l, 0, 1, has_step ? 2 : SIZE_MAX, has_step ? 3 : 2);
}

void random(L& l, RandomAttrs::Kind kind, ValueId shape, DType to) {
  RandomAttrs a;
  a.kind = kind;
  a.to = to;
  a.a = 0;
  a.b = 1;
  l.result(l.op(Op::kRandom, make_attrs<RandomAttrs>(a), {shape}));
}
template <RandomAttrs::Kind kind>
void random_of_size(L& l) {
  random(l, kind, l.int_vector(0), made_type(l, 1, DType::kF32));
}
template <RandomAttrs::Kind kind>
void random_like(L& l) {
  random(l, kind, l.shape_of(l.t(0)), made_type(l, 1, l.dtype(l.t(0))));
}

/// native_dropout(self, p, train) -> x with elements dropped, mask.
void native_dropout(L& l) {
  const ValueId x = l.float_input(0);
  const double p = l.d(1);
  const ValueId shape = l.shape_of(x);
  if (!l.flag(2, true) || p == 0) {
    l.result(l.unary(Unary::kIdentity, x));
    l.result(l.fill(shape, DType::kBool, 1));
    return;
  }
  RandomAttrs a;
  a.a = 0;
  a.b = 1;
  const ValueId noise = l.op(Op::kRandom, make_attrs<RandomAttrs>(a), {shape});
  const ValueId mask = l.binary(Binary::kGreaterEqual, noise, l.number(DType::kF32, p));
  const DType t = l.dtype(x);
  const ValueId kept = l.where(mask, x, l.number(t, 0));
  l.result(p >= 1 ? kept : l.binary(Binary::kDiv, kept, l.number(t, 1 - p)));
  l.result(mask);
}

void eye(L& l) {
  const int64_t n = l.i(0), m = l.arg(1).kind == Arg::Kind::kInt && l.c.overload.starts_with("m") ? l.i(1) : n;
  FillAttrs a;
  a.to = made_type(l, 1, DType::kF32);
  l.result(l.op(Op::kEye, make_attrs<FillAttrs>(a), {l.fill(l.ints_const({n, m}), a.to, 0)}));
}

using Kind = RandomAttrs::Kind;
constexpr Entry kEntries[] = {
    {"aten::full", full},
    {"aten::full_like", full_like},
    {"aten::new_full", new_full},
    {"aten::fill", fill},
    {"aten::zeros", filled<0>},
    {"aten::ones", filled<1>},
    {"aten::empty", filled<0>},
    {"dim_order_ops::_empty_dim_order", filled<0>},
    {"aten::zeros_like", filled_like<0>},
    {"aten::ones_like", filled_like<1>},
    {"aten::empty_like", filled_like<0>},
    {"aten::new_zeros", new_filled<0>},
    {"aten::new_ones", new_filled<1>},
    {"aten::new_empty", new_filled<0>},
    {"aten::scalar_tensor", scalar_tensor},
    {"aten::arange", arange},
    {"aten::rand", random_of_size<Kind::kUniform>},
    {"aten::randn", random_of_size<Kind::kNormal>},
    {"aten::rand_like", random_like<Kind::kUniform>},
    {"aten::randn_like", random_like<Kind::kNormal>},
    {"aten::native_dropout", native_dropout},
    {"aten::eye", eye},
};

}  // namespace

std::span<const Entry> create_entries() { return kEntries; }

}  // namespace smelt::aten
