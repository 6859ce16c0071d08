#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/loops.h"
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

CopyLoop expand_loop(const Shape& x, const Shape& y) {
  const Shape from = widened(x, y.rank());
  const Shape strides = from.strides(), to = y.strides();
  CopyLoop loop;
  for (int i = 0; i < y.rank(); ++i) loop.dim(y[i], from[i] == 1 ? 0 : strides[i], to[i]);
  return loop;
}

Status infer_Expand(InferContext& ctx) {
  return infer_from_list(ctx, [](const Shape& x, const std::vector<int64_t>& dims) -> Result<Shape> {
    SMELT_ASSIGN(const Shape target, shape_from(dims));
    return broadcast_both(x, target);
  });
}

Status reference_Expand(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const Shape target_shape, shape_from(ints_of(ctx.input(1))));
  SMELT_ASSIGN(const Shape want, broadcast_both(x.shape(), target_shape));
  SMELT_TRY(expect_shape(y, want));
  const MoveSource source(x);
  MoveTarget target(y);
  copy(source, target, expand_loop(x.shape(), y.shape()));
  return Ok();
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

Status reference_Tile(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const Shape want, tiled_shape(x.shape(), ints_of(ctx.input(1))));
  SMELT_TRY(expect_shape(y, want));
  if (y.elements() == 0) return Ok();
  const Shape from = widened(x.shape(), y.rank());
  const Shape strides = from.strides(), to = y.shape().strides();
  CopyLoop loop;
  for (int i = 0; i < y.rank(); ++i) {
    loop.dim(y.dim(i) / from[i], 0, to[i] * from[i]);
    loop.dim(from[i], strides[i], to[i]);
  }
  const MoveSource source(x);
  MoveTarget target(y);
  copy(source, target, std::move(loop));
  return Ok();
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

Status reference_RepeatInterleave(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  if (y.elements() == 0) return Ok();
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, x.rank()));
  SMELT_ASSIGN(const auto counts, repeat_counts(ints_of(ctx.input(1)), x.dim(axis)));
  if (std::accumulate(counts.begin(), counts.end(), int64_t{0}) != y.dim(axis))
    return InvalidInput("the repeat counts do not give the planned extent ", y.dim(axis));
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= x.dim(i);
  for (int i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  const MoveSource source(x);
  MoveTarget target(y);
  int64_t at = 0;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < x.dim(axis); ++i)
      for (int64_t r = counts[static_cast<size_t>(i)]; r > 0; --r, at += inner)
        copy_run(source, (o * x.dim(axis) + i) * inner, target, at, inner);
  return Ok();
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
