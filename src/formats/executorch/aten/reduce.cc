// Reductions, extrema with indices, cumulative sums, sorting.
#include <cmath>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// The type in which sums and products of x are made: the call's dtype argument, the declared output, or PyTorch's
/// default (integers add up in int64).
DType sum_type(CallContext& c, ValueId x, size_t dtype_at) {
  if (c.arg(dtype_at).kind == Arg::Kind::kInt)
    if (const DType d = scalar_type(c.i(dtype_at)); d != DType::kInvalid) return d;
  if (c.out_dtype() != DType::kInvalid) return c.out_dtype();
  return is_float(c.dtype(x)) || is_complex(c.dtype(x)) ? c.dtype(x) : DType::kI64;
}

/// x reduced over the axes that the call lists (none: all of them). A scalar has nothing to reduce but its elements.
ValueId over(CallContext& c, Reduction fn, ValueId x, const std::vector<int64_t>& list, bool keep,
             double correction = 0) {
  const int r = c.rank(x);
  const auto axes = c.axes(list, r);
  if (r == 0 && c.ok()) return c.reshape(c.reduce(fn, c.reshape(x, {1}), {0}, true, correction), {});
  return c.reduce(fn, x, axes, keep, correction);
}

ValueId summed(CallContext& c, Reduction fn, ValueId x, const std::vector<int64_t>& list, bool keep, DType to) {
  if (to == DType::kBool) return c.cast(over(c, Reduction::kAny, c.cast(x, DType::kBool), list, keep), to);
  return over(c, fn, c.cast(x, to), list, keep);
}

/// sum.dim_IntList(self, dim?, keepdim, dtype) and sum(self, dtype).
template <Reduction fn>
void sum(CallContext& c) {
  const ValueId x = c.t(0);
  const bool lists = c.arg(1).kind == Arg::Kind::kInts || c.count() >= 3 || c.arg(2).kind == Arg::Kind::kBool;
  if (lists) return c.result(summed(c, fn, x, c.ints(1), c.flag(2), sum_type(c, x, 3)));
  c.result(summed(c, fn, x, {}, false, sum_type(c, x, 1)));
}

void mean(CallContext& c) {
  const ValueId x = c.t(0);
  const bool lists = c.arg(1).kind == Arg::Kind::kInts || c.count() >= 3;
  DType to = sum_type(c, x, lists ? 3 : 1);
  if (!is_float(to) && !is_complex(to)) to = DType::kF32;
  c.result(over(c, Reduction::kMean, c.cast(x, to), lists ? c.ints(1) : std::vector<int64_t>{}, lists && c.flag(2)));
}

/// prod(self, dtype) and prod.dim_int(self, dim, keepdim, dtype).
void prod(CallContext& c) {
  const ValueId x = c.t(0);
  const bool dim = c.count() >= 3 || c.arg(2).kind == Arg::Kind::kBool;
  if (dim) return c.result(summed(c, Reduction::kProd, x, {c.i(1)}, c.flag(2), sum_type(c, x, 3)));
  c.result(summed(c, Reduction::kProd, x, {}, false, sum_type(c, x, 1)));
}

/// any(self), any.dim(self, dim, keepdim), any.dims(self, dim?, keepdim).
template <Reduction fn>
void any(CallContext& c) {
  const ValueId x = c.cast(c.t(0), DType::kBool);
  c.result(over(c, fn, x, c.ints(1), c.flag(2)));
}

/// amax, amin (self, dim, keepdim).
template <Reduction fn>
void extreme(CallContext& c) {
  c.result(over(c, fn, c.t(0), c.ints(1), c.flag(2)));
}

ValueId arg_extreme(CallContext& c, ValueId x, bool min, std::optional<int64_t> axis, bool keep) {
  ArgReduceAttrs a;
  a.min = min;
  a.flatten = !axis;
  a.axis = axis.value_or(0);
  a.keep_dims = keep;
  return c.add(Op::kArgReduce, a, {x});
}

template <bool min>
void arg_of(CallContext& c) {
  ValueId x = c.t(0);
  const int r = c.rank(x);
  const bool keep = c.flag(2);
  if (c.dtype(x) == DType::kBool) x = c.cast(x, DType::kU8);
  if (r == 0) return c.result(c.reshape(arg_extreme(c, c.reshape(x, {1}), min, 0, false), {}));
  if (!c.none(1)) return c.result(arg_extreme(c, x, min, c.axis(c.i(1), r), keep));
  const ValueId flat = c.reshape(arg_extreme(c, c.reshape(x, {-1}), min, 0, false), {});
  c.result(keep ? c.reshape(flat, std::vector<int64_t>(static_cast<size_t>(r), 1)) : flat);
}

/// max(self), max.dim(self, dim, keepdim) -> values, indices; max.other is maximum.
template <bool min>
void max(CallContext& c) {
  const ValueId x = c.t(0);
  if (c.count() == 2 && c.is_tensor(1)) {
    const std::vector<Operand> both{c.operand(0), c.operand(1)};
    const DType to = c.result_type(both);
    return c.result(c.binary(min ? Binary::kMin : Binary::kMax, c.as(both[0], to), c.as(both[1], to)));
  }
  if (c.none(1)) return c.result(over(c, min ? Reduction::kMin : Reduction::kMax, x, {}, false));
  const int r = c.rank(x);
  const int64_t axis = c.axis(c.i(1), r);
  const bool keep = c.flag(2);
  const ValueId rows = r == 0 ? c.reshape(x, {1}) : x;
  const ValueId comparable = c.dtype(rows) == DType::kBool ? c.cast(rows, DType::kU8) : rows;
  const ValueId index = arg_extreme(c, comparable, min, axis, true);
  GatherAttrs g;
  g.axis = axis;
  const ValueId value = c.add(Op::kGatherElements, g, {rows, index});
  for (ValueId v : {value, index}) c.result(r == 0 ? c.reshape(v, {}) : keep ? v : c.squeeze(v, {axis}));
}

/// The correction of var: none given, `unbiased` (bool) or a number.
struct Spread {
  std::vector<int64_t> axes;
  double correction = 1;
  bool keep = false;
};
Spread spread_of(CallContext& c) {
  Spread s;
  if (c.arg(1).kind == Arg::Kind::kBool) {  // var(self, unbiased)
    s.correction = c.flag(1) ? 1 : 0;
    return s;
  }
  s.axes = c.ints(1);
  s.correction = c.d(2, 1);
  s.keep = c.flag(3);
  return s;
}

template <Reduction fn>
void var(CallContext& c) {
  const ValueId x = c.float_input(0);
  const Spread s = spread_of(c);
  c.result(over(c, fn, x, s.axes, s.keep, s.correction));
}

void var_mean(CallContext& c) {
  const ValueId x = c.float_input(0);
  const Spread s = spread_of(c);
  c.result(over(c, Reduction::kVar, x, s.axes, s.keep, s.correction));
  c.result(over(c, Reduction::kMean, x, s.axes, s.keep));
}

void logsumexp(CallContext& c) { c.result(over(c, Reduction::kLogSumExp, c.float_input(0), c.ints(1), c.flag(2))); }

template <CumulativeAttrs::Fn fn>
void cumulative(CallContext& c) {
  ValueId x = c.t(0);
  x = c.cast(x, sum_type(c, x, 2));
  const int r = c.rank(x);
  const int64_t axis = c.axis(c.i(1), r);
  if (r == 0) return c.result(c.identity(x));
  CumulativeAttrs a;
  a.fn = fn;
  c.emit(Op::kCumulative, a, {x, c.integer(DType::kI64, axis)});
}

void topk(CallContext& c) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  TopKAttrs a;
  a.axis = c.axis(c.i(2, -1), r);
  a.largest = c.flag(3, true);
  a.sorted = c.flag(4, true);
  a.torch_order = true;
  const ValueId rows = r == 0 ? c.reshape(x, {1}) : x;
  for (ValueId v : c.add_n(Op::kTopK, a, {rows, c.int_value(1)}, 2)) c.result(r == 0 ? c.reshape(v, {}) : v);
}

/// sort(self, dim, descending), sort.stable(self, *, stable, dim, descending).
ValueId sorted(CallContext& c, bool indices) {
  const ValueId x = c.t(0);
  const int r = c.rank(x);
  const bool stable = c.count() >= 4;
  SortAttrs a;
  a.axis = c.axis(c.i(stable ? 2 : 1, -1), r);
  a.descending = c.flag(stable ? 3 : 2);
  const ValueId rows = r == 0 ? c.reshape(x, {1}) : x;
  auto both = c.add_n(Op::kSort, a, {rows}, 2);
  for (ValueId& v : both) v = r == 0 ? c.reshape(v, {}) : v;
  if (indices) return both[1];
  c.result(both[0]);
  c.result(both[1]);
  return kNoValue;
}

/// Rows of pairwise differences to distances: (sum |d|^p)^(1/p) over the last axis.
ValueId p_norm(CallContext& c, ValueId difference, double p) {
  if (p == 2) {
    const ValueId squares = c.binary(Binary::kMul, difference, difference);
    return c.unary(Unary::kSqrt, c.reduce(Reduction::kSum, squares, {-1}, false));
  }
  const ValueId a = c.unary(Unary::kAbs, difference);
  const DType t = c.dtype(a);
  if (p == 0) {
    const ValueId differ = c.cast(c.binary(Binary::kNotEqual, a, c.number(t, 0)), t);
    return c.reduce(Reduction::kSum, differ, {-1}, false);
  }
  if (p == 1) return c.reduce(Reduction::kSum, a, {-1}, false);
  if (std::isinf(p)) return c.reduce(p > 0 ? Reduction::kMax : Reduction::kMin, a, {-1}, false);
  const ValueId sum = c.reduce(Reduction::kSum, c.binary(Binary::kPow, a, c.number(t, p)), {-1}, false);
  return c.binary(Binary::kPow, sum, c.number(t, 1 / p));
}

void cdist(CallContext& c) {
  const ValueId a = c.float_input(0), bb = c.float_input(1);
  c.result(p_norm(c, c.binary(Binary::kSub, c.unsqueeze(a, {-2}), c.unsqueeze(bb, {-3})), c.d(2, 2)));
}

void pdist(CallContext& c) {
  const ValueId x = c.float_input(0);
  const int64_t n = c.dim(x, 0);
  if (!c.ok()) return;
  if (c.rank(x) != 2 || n < 0 || n > 4096) return c.unsupported("_pdist_forward of ", c.type(x).str());
  std::vector<int64_t> left, right;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      left.push_back(i);
      right.push_back(j);
    }
  const auto rows = [&](const std::vector<int64_t>& at) { return c.add(Op::kGather, GatherAttrs(), {x, c.i64(at)}); };
  c.result(p_norm(c, c.binary(Binary::kSub, rows(left), rows(right)), c.d(1, 2)));
}

/// linalg_vector_norm(self, ord=2, dim?, keepdim, dtype), norm(self, p, dim, keepdim).
void vector_norm(CallContext& c) {
  const ValueId x = c.cast(c.float_input(0), c.out_dtype());
  const double p = c.d(1, 2);
  const auto axes = c.ints(2);
  const bool keep = c.flag(3);
  if (p == 2) return c.result(over(c, Reduction::kL2, x, axes, keep));
  if (p == 1) return c.result(over(c, Reduction::kL1, x, axes, keep));
  const ValueId a = c.unary(Unary::kAbs, x);
  const DType t = c.dtype(a);
  if (std::isinf(p)) return c.result(over(c, p > 0 ? Reduction::kMax : Reduction::kMin, a, axes, keep));
  if (p == 0)
    return c.result(over(c, Reduction::kSum, c.cast(c.binary(Binary::kNotEqual, a, c.number(t, 0)), t), axes, keep));
  const ValueId sum = over(c, Reduction::kSum, c.binary(Binary::kPow, a, c.number(t, p)), axes, keep);
  c.result(c.binary(Binary::kPow, sum, c.number(t, 1 / p)));
}

constexpr OpEntry kEntries[] = {
    {"aten::sum", sum<Reduction::kSum>},
    {"aten::mean", mean},
    {"aten::prod", prod},
    {"aten::any", any<Reduction::kAny>},
    {"aten::all", any<Reduction::kAll>},
    {"aten::amax", extreme<Reduction::kMax>},
    {"aten::amin", extreme<Reduction::kMin>},
    {"aten::argmax", arg_of<false>},
    {"aten::argmin", arg_of<true>},
    {"aten::max", max<false>},
    {"aten::min", max<true>},
    {"aten::var", var<Reduction::kVar>},
    {"aten::std", var<Reduction::kStd>},
    {"aten::var_mean", var_mean},
    {"aten::logsumexp", logsumexp},
    {"aten::cumsum", cumulative<CumulativeAttrs::Fn::kSum>},
    {"aten::cumprod", cumulative<CumulativeAttrs::Fn::kProd>},
    {"aten::topk", topk},
    {"aten::sort", [](CallContext& c) { sorted(c, false); }},
    {"aten::argsort", [](CallContext& c) { c.result(sorted(c, true)); }},
    {"aten::_cdist_forward", cdist},
    {"aten::_pdist_forward", pdist},
    {"aten::linalg_vector_norm", vector_norm},
    {"aten::norm", vector_norm},
};

}  // namespace

std::span<const OpEntry> reduce_entries() { return kEntries; }

}  // namespace smelt::aten
