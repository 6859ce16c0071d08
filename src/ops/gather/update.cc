#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Writes all of `part` into y, its first element at `offset`, its dimensions stepping by `steps` of y's elements.
void write_part(const Tensor& part, Tensor& y, int64_t offset, const Shape& steps) {
  const Shape from = part.shape().strides();
  CopyLoop loop;
  loop.to_offset = offset;
  for (int i = 0; i < part.rank(); ++i) loop.dim(part.dim(i), from[i], part.dim(i) == 1 ? 0 : steps[i]);
  const MoveSource source(part);
  MoveTarget target(y);
  // The target of packed elements starts out empty: the old values have to be carried over.
  if (bit_width(y.dtype()) > 0 && bit_width(y.dtype()) < 8) copy_run(MoveSource(y), 0, target, 0, y.elements());
  copy(source, target, std::move(loop));
}

}  // namespace

Status infer_DynamicUpdateSlice(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  SMELT_TRY(same_dtype(ctx, 0, 1));
  const ValueType &x = ctx.input(0), &update = ctx.input(1);
  if (x.ranked && update.ranked) {
    if (x.shape.rank() != update.shape.rank())
      return InvalidModel("an update of rank ", update.shape.rank(), " for a value of rank ", x.shape.rank());
    for (int i = 0; i < x.shape.rank(); ++i)
      if (x.shape[i] >= 0 && update.shape[i] > x.shape[i])
        return InvalidModel("an update of shape ", update.shape.str(), " for a value of shape ", x.shape.str());
    if (auto n = entries_of(ctx, 2); n && *n != x.shape.rank())
      return InvalidModel(*n, " start indices for a value of rank ", x.shape.rank());
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_DynamicUpdateSlice(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &update = ctx.input(1);
  const auto start = ints_of(ctx.input(2));
  Tensor& y = ctx.output(0);
  copy_all(x, y);
  const Shape strides = x.shape().strides();
  int64_t offset = 0;
  for (int i = 0; i < x.rank(); ++i)
    offset += std::clamp<int64_t>(start[static_cast<size_t>(i)], 0, x.dim(i) - update.dim(i)) * strides[i];
  write_part(update, y, offset, strides);
  return Ok();
}

namespace {

struct Span {
  int64_t start, length, step;
};

/// x[start:end:step] of a dimension of extent n, clamped as PyTorch does.
Result<Span> clamped_span(int64_t start, int64_t end, int64_t step, int64_t n) {
  if (step < 1) return InvalidModel("a step of ", step);
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + n : v, 0, n); };
  start = clamp(start);
  end = std::max(start, clamp(end));
  return Span{start, end == start ? 0 : (end - start - 1) / step + 1, step};
}

}  // namespace

Status infer_SliceScatter(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 5));
  SMELT_TRY(same_dtype(ctx, 0, 1));
  const ValueType &x = ctx.input(0), &source = ctx.input(1);
  if (x.ranked) {
    SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, x.shape.rank()));
    const auto start = int_of(ctx, 2), end = int_of(ctx, 3), step = int_of(ctx, 4);
    if (start && end && step && x.shape.is_static() && source.ranked && source.shape.is_static()) {
      SMELT_ASSIGN(const Span span, clamped_span(*start, *end, *step, x.shape[axis]));
      Shape want = x.shape;
      want[axis] = span.length;
      if (!(source.shape == want))
        return InvalidModel("the source has shape ", source.shape.str(), ", ", want.str(), " expected");
    }
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_SliceScatter(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &source = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, x.rank()));
  for (int i = 2; i < 5; ++i)
    if (ctx.input(i).elements() < 1) return InvalidInput("input ", i, " is empty, a number expected");
  SMELT_ASSIGN(const Span span,
               clamped_span(get_int(ctx.input(2), 0), get_int(ctx.input(3), 0), get_int(ctx.input(4), 0), x.dim(axis)));
  Shape want = x.shape();
  want[axis] = span.length;
  if (!(source.shape() == want))
    return InvalidInput("the source has shape ", source.shape().str(), ", ", want.str(), " expected");
  copy_all(x, y);
  Shape steps = x.shape().strides();
  const int64_t offset = span.start * steps[axis];
  steps[axis] = span.length > 1 ? steps[axis] * span.step : 0;
  write_part(source, y, offset, steps);
  return Ok();
}

Status infer_TensorScatter(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  SMELT_TRY(same_dtype(ctx, 0, 1));
  const ValueType &x = ctx.input(0), &update = ctx.input(1);
  if (x.ranked) {
    SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<ScatterAttrs>().axis, x.shape.rank()));
    if (axis == 0) return InvalidModel("the axis cannot be the batch dimension");
    if (update.ranked) {
      if (update.shape.rank() != x.shape.rank()) return InvalidModel("cache and update differ in rank");
      for (int i = 0; i < x.shape.rank(); ++i)
        if (x.shape[i] >= 0 && update.shape[i] >= 0 &&
            (i == axis ? update.shape[i] > x.shape[i] : update.shape[i] != x.shape[i]))
          return InvalidModel("an update of shape ", update.shape.str(), " for a cache of shape ", x.shape.str());
    }
    if (auto n = entries_of(ctx, 2); n && x.shape[0] >= 0 && *n != x.shape[0])
      return InvalidModel(*n, " write indices for a batch of ", x.shape[0]);
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_TensorScatter(KernelContext& ctx) {
  const auto& a = ctx.attrs<ScatterAttrs>();
  const bool circular = a.reduction == ScatterAttrs::Reduce::kAdd;
  const Tensor &x = ctx.input(0), &update = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  std::vector<int64_t> start(static_cast<size_t>(x.elements() == 0 ? 0 : x.dim(0)), 0);
  if (ctx.has(2)) start = ints_of(ctx.input(2));
  const int64_t extent = x.dim(axis), count = update.dim(axis);
  const MoveSource source(x), fresh(update);
  MoveTarget target(y);
  copy_run(source, 0, target, 0, x.elements());
  if (update.elements() == 0) return Ok();
  const Around around(x.shape(), axis);
  const int64_t rows_per_batch = around.outer / x.dim(0);
  for (int64_t o = 0; o < around.outer; ++o) {
    const int64_t first = start[static_cast<size_t>(o / rows_per_batch)];
    if (first < 0 || (!circular && first > extent - count))
      return InvalidInput("write index ", first, " with ", count, " entries is out of range for an extent of ", extent);
    for (int64_t s = 0; s < count; ++s) {
      const int64_t at = circular ? static_cast<int64_t>((static_cast<uint64_t>(first) + static_cast<uint64_t>(s)) %
                                                         static_cast<uint64_t>(extent))
                                  : first + s;
      copy_run(fresh, (o * count + s) * around.inner, target, (o * extent + at) * around.inner, around.inner);
    }
  }
  return Ok();
}

}  // namespace smelt
