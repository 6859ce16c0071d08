#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// x's shape with leading ones up to `rank`.
Shape widened(const Shape& x, int rank) {
  Shape out = Shape::of_rank(rank, 1);
  for (int i = 0; i < x.rank(); ++i) out[rank - x.rank() + i] = x[i];
  return out;
}

/// The result's type where shape_of(x's shape, the integers of input 1) is its shape; before those are known their
/// number tells its rank.
template <class F>
Status infer_from_list(InferContext& ctx, F shape_of) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
  } else if (const auto list = ctx.ints(1)) {
    SMELT_ASSIGN(const Shape out, shape_of(x.shape, *list));
    ctx.set(0, like(x, out));
  } else if (const auto n = entries_of(ctx, 1); n && *n <= Shape::kMaxRank) {
    ctx.set(0, like(x, Shape::of_rank(std::max(x.shape.rank(), static_cast<int>(*n)), -1)));
  } else {
    ctx.set(0, like_unranked(x));
  }
  return Ok();
}

}  // namespace

Status infer_Expand(InferContext& ctx) {
  return infer_from_list(ctx, [](const Shape& x, const std::vector<int64_t>& dims) -> Result<Shape> {
    SMELT_ASSIGN(const Shape target, shape_from(dims));
    return broadcast_both(x, target);
  });
}

Result<StridedCopies> copies_Expand(const NodeSpec& spec) {
  const Shape& y = spec.outputs[0].shape;
  SMELT_ASSIGN(const Ints dims, constant_ints(spec, 1));
  SMELT_ASSIGN(const Shape target, shape_from(dims));
  SMELT_ASSIGN(const Shape want, broadcast_both(spec.inputs[0].shape, target));
  SMELT_TRY(expect_shape(spec.outputs[0], want));
  const Shape x = widened(spec.inputs[0].shape, y.rank()), from = x.strides(), to = y.strides();
  StridedCopy c;
  for (int i = 0; i < y.rank(); ++i) c.dim(y[i], x[i] == 1 ? 0 : from[i], to[i]);
  return one_copy(std::move(c));
}

namespace {

Result<Shape> tiled_shape(const Shape& x, const std::vector<int64_t>& repeats) {
  const int rank = std::max(x.rank(), static_cast<int>(std::min<size_t>(repeats.size(), 1000)));
  if (rank > Shape::kMaxRank) return Unsupported("a rank of ", rank);
  Shape out = widened(x, rank);
  const int shift = rank - static_cast<int>(repeats.size());
  for (int i = shift; i < rank; ++i) {
    const int64_t r = repeats[static_cast<size_t>(i - shift)];
    if (r < 0) return InvalidModel("a repeat count of ", r);
    if (out[i] >= 0 && __builtin_mul_overflow(out[i], r, &out[i])) return LimitReached("the result is too large");
  }
  return out;
}

}  // namespace

Status infer_Tile(InferContext& ctx) { return infer_from_list(ctx, tiled_shape); }

Result<StridedCopies> copies_Tile(const NodeSpec& spec) {
  const Shape& y = spec.outputs[0].shape;
  SMELT_ASSIGN(const Ints repeats, constant_ints(spec, 1));
  SMELT_ASSIGN(const Shape want, tiled_shape(spec.inputs[0].shape, repeats));
  SMELT_TRY(expect_shape(spec.outputs[0], want));
  if (y.elements() == 0) return StridedCopies{};
  const Shape x = widened(spec.inputs[0].shape, y.rank()), from = x.strides(), to = y.strides();
  StridedCopy c;
  for (int i = 0; i < y.rank(); ++i) {
    c.dim(y[i] / x[i], 0, to[i] * x[i]);
    c.dim(x[i], from[i], to[i]);
  }
  return one_copy(std::move(c));
}

namespace {

/// Repeat counts for every entry of a dimension of extent n.
Result<std::vector<int64_t>> repeat_counts(std::vector<int64_t> repeats, int64_t n) {
  for (int64_t r : repeats)
    if (r < 0 || r > (int64_t{1} << 40)) return InvalidModel("a repeat count of ", r);
  if (repeats.size() == 1) repeats.assign(static_cast<size_t>(n), repeats[0]);
  if (static_cast<int64_t>(repeats.size()) != n)
    return InvalidModel(repeats.size(), " repeat counts for a dimension of ", n);
  return repeats;
}

}  // namespace

Status infer_RepeatInterleave(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, x.shape.rank()));
  Shape out = x.shape;
  out[axis] = -1;
  auto repeats = ctx.ints(1);
  if (repeats && repeats->size() == 1 && x.shape[axis] >= 0) {
    if (repeats->front() < 0) return InvalidModel("a repeat count of ", repeats->front());
    if (__builtin_mul_overflow(repeats->front(), x.shape[axis], &out[axis]))
      return LimitReached("the result is too large");
  } else if (repeats && x.shape[axis] >= 0) {
    SMELT_ASSIGN(const auto counts, repeat_counts(std::move(*repeats), x.shape[axis]));
    out[axis] = 0;
    for (int64_t r : counts)
      if (__builtin_add_overflow(out[axis], r, &out[axis])) return LimitReached("the result is too large");
  }
  ctx.set(0, like(x, out));
  return Ok();
}

Result<StridedCopies> copies_RepeatInterleave(const NodeSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (y.elements() == 0) return StridedCopies{};
  SMELT_ASSIGN(const int axis, axis_of(spec.attrs<AxisAttrs>().axis, x.rank()));
  SMELT_ASSIGN(Ints repeats, constant_ints(spec, 1));
  SMELT_ASSIGN(const auto counts, repeat_counts(std::move(repeats), x[axis]));
  if (std::accumulate(counts.begin(), counts.end(), int64_t{0}) != y[axis])
    return InvalidInput("the repeat counts do not give the planned extent ", y[axis]);
  Ints table;
  table.reserve(static_cast<size_t>(y[axis]));
  for (size_t i = 0; i < counts.size(); ++i)
    table.insert(table.end(), static_cast<size_t>(counts[i]), static_cast<int64_t>(i));
  std::vector<std::vector<DimRun>> dims;
  for (int64_t n : x) dims.push_back({neighbours(0, 0, n)});
  dims[static_cast<size_t>(axis)] = dim_runs(table);
  StridedCopies all;
  add_separable(all, x, y, dims);
  return all;
}

Status infer_BroadcastShape(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const auto a = entries_of(ctx, 0), b = entries_of(ctx, 1);
  const DType dtype = ctx.input(0).dtype;
  ctx.set(0, ValueType::tensor(dtype, Shape{a && b ? std::max(*a, *b) : -1}));
  return Ok();
}

Status reference_BroadcastShape(KernelContext& ctx) {
  SMELT_ASSIGN(const Shape a, shape_from(ints_of(ctx.input(0))));
  SMELT_ASSIGN(const Shape b, shape_from(ints_of(ctx.input(1))));
  SMELT_ASSIGN(const Shape out, broadcast_both(a, b));
  SMELT_TRY(expect_shape(ctx.output(0), Shape{out.rank()}));
  from_ints(out.begin(), ctx.output(0));
  return Ok();
}

}  // namespace smelt
