// Reductions, extrema with indices, cumulative sums, sorting.
#include <cmath>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// The type in which sums and products of x are made: the call's dtype argument, the declared output, or PyTorch's
/// default (integers add up in int64).
DType sum_type(L& l, ValueId x, size_t dtype_at) {
  if (l.arg(dtype_at).kind == Arg::Kind::kInt)
    if (const DType d = scalar_type(l.i(dtype_at)); d != DType::kInvalid) return d;
  if (l.out_dtype() != DType::kInvalid) return l.out_dtype();
  return is_float(l.dtype(x)) || is_complex(l.dtype(x)) ? l.dtype(x) : DType::kI64;
}

/// x reduced over the axes that the call lists (none: all of them). A scalar has nothing to reduce but its elements.
ValueId over(L& l, Reduction fn, ValueId x, const std::vector<int64_t>& list, bool keep, double correction = 0) {
  const int r = l.rank(x);
  const auto axes = l.axes(list, r);
  if (r == 0 && l.ok()) return l.reshape(l.reduce(fn, l.reshape(x, {1}), {0}, true, correction), {});
  return l.reduce(fn, x, axes, keep, correction);
}

ValueId summed(L& l, Reduction fn, ValueId x, const std::vector<int64_t>& list, bool keep, DType to) {
  if (to == DType::kBool) return l.cast(over(l, Reduction::kAny, l.cast(x, DType::kBool), list, keep), to);
  return over(l, fn, l.cast(x, to), list, keep);
}

/// sum.dim_IntList(self, dim?, keepdim, dtype) and sum(self, dtype).
template <Reduction fn>
void sum(L& l) {
  const ValueId x = l.t(0);
  const bool lists = l.arg(1).kind == Arg::Kind::kInts || l.count() >= 3 || l.arg(2).kind == Arg::Kind::kBool;
  if (lists) return l.result(summed(l, fn, x, l.ints(1), l.flag(2), sum_type(l, x, 3)));
  l.result(summed(l, fn, x, {}, false, sum_type(l, x, 1)));
}

void mean(L& l) {
  const ValueId x = l.t(0);
  const bool lists = l.arg(1).kind == Arg::Kind::kInts || l.count() >= 3;
  DType to = sum_type(l, x, lists ? 3 : 1);
  if (!is_float(to) && !is_complex(to)) to = DType::kF32;
  l.result(over(l, Reduction::kMean, l.cast(x, to), lists ? l.ints(1) : std::vector<int64_t>{}, lists && l.flag(2)));
}

/// prod(self, dtype) and prod.dim_int(self, dim, keepdim, dtype).
void prod(L& l) {
  const ValueId x = l.t(0);
  const bool dim = l.count() >= 3 || l.arg(2).kind == Arg::Kind::kBool;
  if (dim) return l.result(summed(l, Reduction::kProd, x, {l.i(1)}, l.flag(2), sum_type(l, x, 3)));
  l.result(summed(l, Reduction::kProd, x, {}, false, sum_type(l, x, 1)));
}

/// any(self), any.dim(self, dim, keepdim), any.dims(self, dim?, keepdim).
template <Reduction fn>
void any(L& l) {
  const ValueId x = l.cast(l.t(0), DType::kBool);
  l.result(over(l, fn, x, l.ints(1), l.flag(2)));
}

/// amax, amin (self, dim, keepdim).
template <Reduction fn>
void extreme(L& l) {
  l.result(over(l, fn, l.t(0), l.ints(1), l.flag(2)));
}

ValueId arg_extreme(L& l, ValueId x, bool min, std::optional<int64_t> axis, bool keep) {
  ArgReduceAttrs a;
  a.min = min;
  a.flatten = !axis;
  a.axis = axis.value_or(0);
  a.keep_dims = keep;
  return l.op(Op::kArgReduce, make_attrs<ArgReduceAttrs>(a), {x});
}

template <bool min>
void arg_of(L& l) {
  ValueId x = l.t(0);
  const int r = l.rank(x);
  const bool keep = l.flag(2);
  if (l.dtype(x) == DType::kBool) x = l.cast(x, DType::kU8);
  if (r == 0) return l.result(l.reshape(arg_extreme(l, l.reshape(x, {1}), min, 0, false), {}));
  if (!l.none(1)) return l.result(arg_extreme(l, x, min, l.axis(l.i(1), r), keep));
  const ValueId flat = l.reshape(arg_extreme(l, l.reshape(x, {-1}), min, 0, false), {});
  l.result(keep ? l.reshape(flat, std::vector<int64_t>(static_cast<size_t>(r), 1)) : flat);
}

/// max(self), max.dim(self, dim, keepdim) -> values, indices; max.other is maximum.
template <bool min>
void max(L& l) {
  const ValueId x = l.t(0);
  if (l.count() == 2 && l.is_tensor(1)) {
    const std::vector<L::Operand> both{l.operand(0), l.operand(1)};
    const DType to = l.result_type(both);
    return l.result(l.binary(min ? Binary::kMin : Binary::kMax, l.as(both[0], to), l.as(both[1], to)));
  }
  if (l.none(1)) return l.result(over(l, min ? Reduction::kMin : Reduction::kMax, x, {}, false));
  const int r = l.rank(x);
  const int64_t axis = l.axis(l.i(1), r);
  const bool keep = l.flag(2);
  const ValueId rows = r == 0 ? l.reshape(x, {1}) : x;
  const ValueId comparable = l.dtype(rows) == DType::kBool ? l.cast(rows, DType::kU8) : rows;
  const ValueId index = arg_extreme(l, comparable, min, axis, true);
  GatherAttrs g;
  g.axis = axis;
  const ValueId value = l.op(Op::kGatherElements, make_attrs<GatherAttrs>(g), {rows, index});
  for (ValueId v : {value, index}) l.result(r == 0 ? l.reshape(v, {}) : keep ? v : l.squeeze(v, {axis}));
}

/// The correction of var: none given, `unbiased` (bool) or a number.
struct Spread {
  std::vector<int64_t> axes;
  double correction = 1;
  bool keep = false;
};
Spread spread_of(L& l) {
  Spread s;
  if (l.arg(1).kind == Arg::Kind::kBool) {  // var(self, unbiased)
    s.correction = l.flag(1) ? 1 : 0;
    return s;
  }
  s.axes = l.ints(1);
  s.correction = l.d(2, 1);
  s.keep = l.flag(3);
  return s;
}

template <Reduction fn>
void var(L& l) {
  const ValueId x = l.float_input(0);
  const Spread s = spread_of(l);
  l.result(over(l, fn, x, s.axes, s.keep, s.correction));
}

void var_mean(L& l) {
  const ValueId x = l.float_input(0);
  const Spread s = spread_of(l);
  l.result(over(l, Reduction::kVar, x, s.axes, s.keep, s.correction));
  l.result(over(l, Reduction::kMean, x, s.axes, s.keep));
}

void logsumexp(L& l) { l.result(over(l, Reduction::kLogSumExp, l.float_input(0), l.ints(1), l.flag(2))); }

template <CumulativeAttrs::Fn fn>
void cumulative(L& l) {
  ValueId x = l.t(0);
  x = l.cast(x, sum_type(l, x, 2));
  const int r = l.rank(x);
  const int64_t axis = l.axis(l.i(1), r);
  if (r == 0) return l.result(l.unary(Unary::kIdentity, x));
  CumulativeAttrs a;
  a.fn = fn;
  l.result(l.op(Op::kCumulative, make_attrs<CumulativeAttrs>(a), {x, l.integer(DType::kI64, axis)}));
}

void topk(L& l) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  TopKAttrs a;
  a.axis = l.axis(l.i(2, -1), r);
  a.largest = l.flag(3, true);
  a.sorted = l.flag(4, true);
  a.torch_order = true;
  const ValueId rows = r == 0 ? l.reshape(x, {1}) : x;
  for (ValueId v : l.ops(Op::kTopK, make_attrs<TopKAttrs>(a), {rows, l.int_value(1)}, 2))
    l.result(r == 0 ? l.reshape(v, {}) : v);
}

/// sort(self, dim, descending), sort.stable(self, *, stable, dim, descending).
ValueId sorted(L& l, bool indices) {
  const ValueId x = l.t(0);
  const int r = l.rank(x);
  const bool stable = l.count() >= 4;
  SortAttrs a;
  a.axis = l.axis(l.i(stable ? 2 : 1, -1), r);
  a.descending = l.flag(stable ? 3 : 2);
  const ValueId rows = r == 0 ? l.reshape(x, {1}) : x;
  auto both = l.ops(Op::kSort, make_attrs<SortAttrs>(a), {rows}, 2);
  for (ValueId& v : both) v = r == 0 ? l.reshape(v, {}) : v;
  if (indices) return both[1];
  l.result(both[0]);
  l.result(both[1]);
  return kNoValue;
}

/// Rows of pairwise differences to distances: (sum |d|^p)^(1/p) over the last axis.
ValueId p_norm(L& l, ValueId difference, double p) {
  if (p == 2) {
    const ValueId squares = l.binary(Binary::kMul, difference, difference);
    return l.unary(Unary::kSqrt, l.reduce(Reduction::kSum, squares, {-1}, false));
  }
  const ValueId a = l.unary(Unary::kAbs, difference);
  const DType t = l.dtype(a);
  if (p == 0) {
    const ValueId differ = l.cast(l.binary(Binary::kNotEqual, a, l.number(t, 0)), t);
    return l.reduce(Reduction::kSum, differ, {-1}, false);
  }
  if (p == 1) return l.reduce(Reduction::kSum, a, {-1}, false);
  if (std::isinf(p)) return l.reduce(p > 0 ? Reduction::kMax : Reduction::kMin, a, {-1}, false);
  const ValueId sum = l.reduce(Reduction::kSum, l.binary(Binary::kPow, a, l.number(t, p)), {-1}, false);
  return l.binary(Binary::kPow, sum, l.number(t, 1 / p));
}

void cdist(L& l) {
  const ValueId a = l.float_input(0), bb = l.float_input(1);
  l.result(p_norm(l, l.binary(Binary::kSub, l.unsqueeze(a, {-2}), l.unsqueeze(bb, {-3})), l.d(2, 2)));
}

void pdist(L& l) {
  const ValueId x = l.float_input(0);
  const int64_t n = l.dim(x, 0);
  if (!l.ok()) return;
  if (l.rank(x) != 2 || n < 0 || n > 4096) return l.fail(Unsupported("_pdist_forward of ", l.type(x).str()));
  std::vector<int64_t> left, right;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = i + 1; j < n; ++j) {
      left.push_back(i);
      right.push_back(j);
    }
  const auto rows = [&](const std::vector<int64_t>& at) {
    return l.op(Op::kGather, make_attrs<GatherAttrs>(), {x, l.ints_const(at)});
  };
  l.result(p_norm(l, l.binary(Binary::kSub, rows(left), rows(right)), l.d(1, 2)));
}

/// linalg_vector_norm(self, ord=2, dim?, keepdim, dtype), norm(self, p, dim, keepdim).
void vector_norm(L& l) {
  const ValueId x = l.cast(l.float_input(0), l.out_dtype());
  const double p = l.d(1, 2);
  const auto axes = l.ints(2);
  const bool keep = l.flag(3);
  if (p == 2) return l.result(over(l, Reduction::kL2, x, axes, keep));
  if (p == 1) return l.result(over(l, Reduction::kL1, x, axes, keep));
  const ValueId a = l.unary(Unary::kAbs, x);
  const DType t = l.dtype(a);
  if (std::isinf(p)) return l.result(over(l, p > 0 ? Reduction::kMax : Reduction::kMin, a, axes, keep));
  if (p == 0)
    return l.result(over(l, Reduction::kSum, l.cast(l.binary(Binary::kNotEqual, a, l.number(t, 0)), t), axes, keep));
  const ValueId sum = over(l, Reduction::kSum, l.binary(Binary::kPow, a, l.number(t, p)), axes, keep);
  l.result(l.binary(Binary::kPow, sum, l.number(t, 1 / p)));
}

constexpr Entry kEntries[] = {
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
    {"aten::sort", [](L& l) { sorted(l, false); }},
    {"aten::argsort", [](L& l) { l.result(sorted(l, true)); }},
    {"aten::_cdist_forward", cdist},
    {"aten::_pdist_forward", pdist},
    {"aten::linalg_vector_norm", vector_norm},
    {"aten::norm", vector_norm},
};

}  // namespace

std::span<const Entry> reduce_entries() { return kEntries; }

}  // namespace smelt::aten
