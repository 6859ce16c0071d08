// Normalizations and what they are made of.
#include <limits>

#include "ops/common/index.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "passes/decompose/rules.h"

namespace smelt::decomposition {

/// x over its norm, which is not below the least normal number: a norm of 0 gives 0.
[[gnu::cold]] std::optional<DecomposedNode> lp_norm(const NodeSpec& spec) {
  const auto& a = spec.attrs<LpNormAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (!unquantized(spec, {0}, {DType::kF32}) || a.act.kind != ActKind::kNone || shape.elements() == 0)
    return std::nullopt;
  const auto axis = normalize_axis(a.axis, shape.rank());
  if (!axis.ok()) return std::nullopt;
  Decomposition c(spec);
  const ValueId x = c.input(0);
  ReduceAttrs sum;
  sum.fn = a.p == 1 ? Reduction::kSum : Reduction::kSumSquare;
  sum.keep_dims = true;
  ValueId norm =
      c.add(Op::kReduce, make_attrs<ReduceAttrs>(sum), {a.p == 1 ? c.unary(Unary::kAbs, x) : x, c.i64({*axis})});
  if (!a.epsilon_max && a.epsilon > 0) norm = c.binary(Binary::kAdd, norm, c.scalar(DType::kF32, a.epsilon));
  if (a.p != 1) norm = c.unary(Unary::kSqrt, norm);
  const double least = static_cast<double>(std::numeric_limits<float>::min());
  norm = c.binary(Binary::kMax, norm, c.scalar(DType::kF32, a.epsilon_max ? std::max(a.epsilon, least) : least));
  return c.finish({c.binary(Binary::kDiv, x, norm)});
}

/// A group normalization, where the axes are all but the batch, or the channels as well.
[[gnu::cold]] std::optional<DecomposedNode> mean_variance_norm(const NodeSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  const auto axes = normalize_axes(spec.attrs<MeanVarianceNormAttrs>().axes, shape.rank());
  if (!unquantized(spec) || !axes.ok() || shape.rank() < 3) return std::nullopt;
  std::vector<bool> over(static_cast<size_t>(shape.rank()));
  for (const int axis : *axes) over[static_cast<size_t>(axis)] = true;
  if ((over[0] && shape[0] != 1) || std::count(over.begin() + 2, over.end(), false) > 0) return std::nullopt;
  GroupNormAttrs a;
  a.groups = over[1] ? 1 : 0;
  a.epsilon = 1e-18;  // of the variance, as 1e-9 of its root
  Decomposition c(spec);
  return c.finish({c.add(Op::kGroupNorm, make_attrs<GroupNormAttrs>(a), {c.input(0)})});
}

/// A norm of order 1 or 2 over windows by means or sums of magnitudes or squares.
[[gnu::cold]] std::optional<DecomposedNode> lp_pool(const NodeSpec& spec) {
  PoolAttrs a = spec.attrs<PoolAttrs>();
  if (a.kind != PoolKind::kLp || (a.p != 1 && a.p != 2) || a.act.kind != ActKind::kNone ||
      !unquantized(spec, {0}, {DType::kF32}))
    return std::nullopt;
  Decomposition c(spec);
  const ValueId x = c.input(0);
  a.kind = PoolKind::kAverage;
  a.divisor_override = a.mean_square ? 0 : 1;
  const ValueId sums =
      c.add(Op::kPool, make_attrs<PoolAttrs>(a), {c.unary(a.p == 1 ? Unary::kAbs : Unary::kSquare, x)});
  return c.finish({a.p == 1 ? sums : c.unary(Unary::kSqrt, sums)});
}

}  // namespace smelt::decomposition
