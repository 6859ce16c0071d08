#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/copies.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

namespace smelt {
namespace {

/// x with input 1 written into it, its first element at `offset`, its dimensions stepping by `steps` of x's elements.
StridedCopies updated(const NodeSpec& spec, int64_t offset, const Shape& steps) {
  const Shape &part = spec.inputs[1].shape, from = part.strides();
  StridedCopies all = one_copy(whole_copy(spec, 0));
  StridedCopy c;
  c.input = 1;
  c.out_offset = offset;
  for (int i = 0; i < part.rank(); ++i) c.dim(part[i], from[i], steps[i]);
  all.copies.push_back(std::move(c));
  return all;
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

Result<StridedCopies> copies_DynamicUpdateSlice(const NodeSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &update = spec.inputs[1].shape, strides = x.strides();
  SMELT_ASSIGN(const Ints start, constant_ints(spec, 2));
  int64_t offset = 0;
  for (int i = 0; i < x.rank(); ++i)
    offset += std::clamp<int64_t>(start[static_cast<size_t>(i)], 0, x[i] - update[i]) * strides[i];
  return updated(spec, offset, strides);
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

Result<StridedCopies> copies_SliceScatter(const NodeSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &source = spec.inputs[1].shape;
  SMELT_ASSIGN(const int axis, axis_of(spec.attrs<AxisAttrs>().axis, x.rank()));
  SMELT_ASSIGN(const int64_t start, constant_int(spec, 2, 0));
  SMELT_ASSIGN(const int64_t end, constant_int(spec, 3, 0));
  SMELT_ASSIGN(const int64_t step, constant_int(spec, 4, 0));
  SMELT_ASSIGN(const Span span, clamped_span(start, end, step, x[axis]));
  Shape want = x;
  want[axis] = span.length;
  if (!(source == want)) return InvalidInput("the source has shape ", source.str(), ", ", want.str(), " expected");
  Shape steps = x.strides();
  const int64_t offset = span.start * steps[axis];
  steps[axis] = span.length > 1 ? steps[axis] * span.step : 0;
  return updated(spec, offset, steps);
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

Result<StridedCopies> copies_TensorScatter(const NodeSpec& spec) {
  const auto& a = spec.attrs<ScatterAttrs>();
  const bool circular = a.reduction == ScatterAttrs::Reduce::kAdd;
  const Shape &x = spec.inputs[0].shape, &update = spec.inputs[1].shape;
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  StridedCopies all = one_copy(whole_copy(spec, 0));
  if (update.elements() == 0) return all;
  Ints start(static_cast<size_t>(x[0]), 0);
  if (spec.has(2)) {
    SMELT_ASSIGN(start, constant_ints(spec, 2));
  }
  const int64_t extent = x[axis], count = update[axis], batches = x[0];
  if (static_cast<int64_t>(start.size()) != batches)
    return InvalidInput(start.size(), " write indices for a batch of ", batches);
  const Around around(x, axis);
  const int64_t rows = around.outer / batches;  // in every batch
  for (int64_t batch = 0; batch < batches; ++batch) {
    const int64_t first = start[static_cast<size_t>(batch)];
    if (first < 0 || (!circular && first > extent - count))
      return InvalidInput("write index ", first, " with ", count, " entries is out of range for an extent of ", extent);
    // A circular update that reaches the end goes on at the beginning.
    const int64_t at = first % extent, before_end = std::min(count, extent - at);
    for (const auto& [from, to, n] :
         {std::array{int64_t{0}, at, before_end}, {before_end, int64_t{0}, count - before_end}}) {
      StridedCopy c;
      c.input = 1;
      c.in_offset = (batch * rows * count + from) * around.inner;
      c.out_offset = (batch * rows * extent + to) * around.inner;
      c.dim(rows, count * around.inner, extent * around.inner);
      c.dim(n * around.inner, 1, 1);
      all.copies.push_back(std::move(c));
    }
  }
  return all;
}

}  // namespace smelt
