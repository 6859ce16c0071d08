// Factories: constants, ranges, random values.
#include <cmath>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"
#include "tensor/numeric.h"

namespace smelt::aten {
namespace {

/// The element type of a factory's result: declared, or the functional form's dtype argument, or the default.
DType made_type(CallContext& c, size_t dtype_at, DType otherwise) {
  if (c.out_dtype() != DType::kInvalid) return c.out_dtype();
  if (!c.call.out_variant && c.arg(dtype_at).kind == Arg::Kind::kInt)
    if (const DType d = scalar_type(c.i(dtype_at)); d != DType::kInvalid) return d;
  return otherwise;
}

void fill_with(CallContext& c, ValueId shape, DType to, const Operand& value) {
  c.result(c.fill(shape, c.as(value, to)));
}

DType number_type(const Operand& v) { return v.kind == DType::kInvalid ? DType::kF32 : v.kind; }

/// full(size, value), new_full(self, size, value).
void full(CallContext& c) { fill_with(c, c.int_vector(0), made_type(c, 2, number_type(c.operand(1))), c.operand(1)); }
void new_full(CallContext& c) { fill_with(c, c.int_vector(1), made_type(c, 3, c.dtype(c.t(0))), c.operand(2)); }
void full_like(CallContext& c) { fill_with(c, c.shape_of(c.t(0)), made_type(c, 2, c.dtype(c.t(0))), c.operand(1)); }
/// fill(self, value): a number or a scalar tensor.
void fill(CallContext& c) {
  const ValueId x = c.t(0);
  fill_with(c, c.shape_of(x), c.dtype(x), c.operand(1));
}

template <int value>
void filled(CallContext& c) {
  const DType to = made_type(c, 1, DType::kF32);
  c.result(c.filled(c.int_vector(0), to, value));
}
template <int value>
void filled_like(CallContext& c) {
  const DType to = made_type(c, 1, c.dtype(c.t(0)));
  c.result(c.filled(c.shape_of(c.t(0)), to, value));
}
template <int value>
void new_filled(CallContext& c) {
  const DType to = made_type(c, 2, c.dtype(c.t(0)));
  c.result(c.filled(c.int_vector(1), to, value));
}

void scalar_tensor(CallContext& c) {
  const Operand v = c.operand(0);
  const ValueId y = c.as(v, made_type(c, 1, number_type(v)));
  c.result(c.type(y).ranked && c.type(y).shape.rank() == 0 ? y : c.reshape(y, {}));
}

/// The numbers of a range when all bounds are known: computed in double, or in int64 when all of them are integers.
void range(CallContext& c, size_t start_at, size_t end_at, size_t step_at, size_t dtype_at) {
  const auto known = [&](size_t at) {
    const Arg::Kind k = c.arg(at).kind;
    return at == SIZE_MAX || k == Arg::Kind::kInt || k == Arg::Kind::kDouble || k == Arg::Kind::kNone;
  };
  bool real = false;
  for (size_t at : {start_at, end_at, step_at}) real = real || (at != SIZE_MAX && c.arg(at).kind == Arg::Kind::kDouble);
  const DType to = made_type(c, dtype_at, real ? DType::kF32 : DType::kI64);
  if (!known(start_at) || !known(end_at) || !known(step_at)) {
    const auto bound = [&](size_t at, int64_t otherwise) {
      return at == SIZE_MAX ? c.integer(DType::kI64, otherwise) : c.int_value(at, otherwise);
    };
    const ValueId all = c.range(bound(start_at, 0), bound(end_at, 0), bound(step_at, 1));
    return c.result(c.cast(all, to));
  }
  const double start = start_at == SIZE_MAX ? 0 : c.d(start_at, 0), end = c.d(end_at);
  const double step = step_at == SIZE_MAX ? 1 : c.d(step_at, 1);
  if (!c.ok()) return;
  if (step == 0 || !std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step))
    return c.fail("arange from ", start, " to ", end, " by ", step);
  const double count = std::max(0.0, std::ceil((end - start) / step));
  if (count > (1 << 26)) return c.fail(LimitReached("arange of ", count, " elements"));
  Tensor values(to, Shape{static_cast<int64_t>(count)});
  for (int64_t k = 0; k < values.elements(); ++k) {
    const double v = start + static_cast<double>(k) * step;
    if (is_integer(to))
      set_int(values, k, real ? static_cast<int64_t>(v) : static_cast<int64_t>(start) + k * static_cast<int64_t>(step));
    else
      set_double(values, k, v);
  }
  c.result(c.constant(std::move(values)));
}

/// arange(end), arange.start(start, end), arange.start_step(start, end, step).
void arange(CallContext& c) {
  const bool has_start = c.call.overload.starts_with("start");
  if (!has_start) return range(c, SIZE_MAX, 0, SIZE_MAX, 1);
  const bool has_step = c.call.overload != "start";
  range(c, 0, 1, has_step ? 2 : SIZE_MAX, has_step ? 3 : 2);
}

void random(CallContext& c, RandomAttrs::Kind kind, ValueId shape, DType to) {
  RandomAttrs a;
  a.kind = kind;
  a.to = to;
  a.a = 0;
  a.b = 1;
  c.emit(Op::kRandom, a, {shape});
}
template <RandomAttrs::Kind kind>
void random_of_size(CallContext& c) {
  random(c, kind, c.int_vector(0), made_type(c, 1, DType::kF32));
}
template <RandomAttrs::Kind kind>
void random_like(CallContext& c) {
  random(c, kind, c.shape_of(c.t(0)), made_type(c, 1, c.dtype(c.t(0))));
}

/// native_dropout(self, p, train) -> x with elements dropped, mask.
void native_dropout(CallContext& c) {
  const ValueId x = c.float_input(0);
  const double p = c.d(1);
  const ValueId shape = c.shape_of(x);
  if (!c.flag(2, true) || p == 0) {
    c.result(c.identity(x));
    c.result(c.filled(shape, DType::kBool, 1));
    return;
  }
  RandomAttrs a;
  a.a = 0;
  a.b = 1;
  const ValueId noise = c.add(Op::kRandom, a, {shape});
  const ValueId mask = c.binary(Binary::kGreaterEqual, noise, c.number(DType::kF32, p));
  const DType t = c.dtype(x);
  const ValueId kept = c.where(mask, x, c.number(t, 0));
  c.result(p >= 1 ? kept : c.binary(Binary::kDiv, kept, c.number(t, 1 - p)));
  c.result(mask);
}

void eye(CallContext& c) {
  const int64_t n = c.i(0), m = c.arg(1).kind == Arg::Kind::kInt && c.call.overload.starts_with("m") ? c.i(1) : n;
  FillAttrs a;
  a.to = made_type(c, 1, DType::kF32);
  c.emit(Op::kEye, a, {c.filled(c.i64({n, m}), a.to, 0)});
}

using Kind = RandomAttrs::Kind;
constexpr OpEntry kEntries[] = {
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

std::span<const OpEntry> create_entries() { return kEntries; }

}  // namespace smelt::aten
