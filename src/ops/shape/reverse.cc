#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

namespace smelt {

Status infer_Reverse(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  auto axes = ctx.ints(1);
  if (axes && x.ranked) SMELT_TRY(axes_of(*axes, x.shape.rank()));
  ctx.set(0, x);
  return Ok();
}

Status reference_Reverse(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const auto axes, axes_of(ints_of(ctx.input(1)), x.rank()));
  const Shape strides = x.shape().strides();
  CopyLoop loop;
  for (int i = 0; i < x.rank(); ++i) loop.dim(x.dim(i), strides[i], strides[i]);
  for (int a : axes) {
    loop.from_offset += (x.dim(a) - 1) * strides[a];
    loop.from[static_cast<size_t>(a)] = -strides[a];
  }
  const MoveSource source(x);
  MoveTarget target(ctx.output(0));
  copy(source, target, std::move(loop));
  return Ok();
}

Status infer_ReverseSequence(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const auto& a = ctx.attrs<DiagonalAttrs>();
  const ValueType& x = ctx.input(0);
  if (x.ranked) {
    SMELT_ASSIGN(const auto axes, axes_of({a.axis1, a.axis2}, x.shape.rank()));
    const auto n = entries_of(ctx, 1);
    if (n && x.shape[axes[1]] >= 0 && *n != x.shape[axes[1]])
      return InvalidModel(*n, " lengths for a batch of ", x.shape[axes[1]]);
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_ReverseSequence(KernelContext& ctx) {
  const auto& a = ctx.attrs<DiagonalAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const auto axes, axes_of({a.axis1, a.axis2}, x.rank()));
  const int time = axes[0], batch = axes[1];
  if (x.elements() == 0) return Ok();
  const auto lengths = ints_of(ctx.input(1));
  for (int64_t n : lengths)
    if (n < 0 || n > x.dim(time)) return InvalidInput("a length of ", n, " for a time dimension of ", x.dim(time));
  // One run is everything behind the later of the two axes.
  const int last = std::max(time, batch);
  int64_t run = 1;
  for (int i = last + 1; i < x.rank(); ++i) run *= x.dim(i);
  const Shape strides = x.shape().strides();
  const MoveSource source(x);
  MoveTarget target(ctx.output(0));
  int64_t at = 0;
  const Shape outer(x.shape().dims().first(static_cast<size_t>(last + 1)));
  for_each_index(outer, [&](const int64_t* index) {
    const int64_t n = lengths[static_cast<size_t>(index[batch])], t = index[time];
    const int64_t from = t < n ? at + (n - 1 - 2 * t) * strides[time] : at;
    copy_run(source, from, target, at, run);
    at += run;
    return true;
  });
  return Ok();
}

namespace {

/// Start of the rotated dimension: how far to the right, in [0, n).
int64_t rotation(int64_t shift, int64_t n) {
  if (n == 0) return 0;
  const int64_t r = shift % n;
  return r < 0 ? r + n : r;
}

void roll_axis(const Tensor& x, Tensor& y, int64_t outer, int64_t n, int64_t inner, int64_t shift) {
  const int64_t right = rotation(shift, n);
  const MoveSource source(x);
  MoveTarget target(y);
  for (int64_t o = 0; o < outer; ++o) {
    const int64_t base = o * n * inner;
    copy_run(source, base, target, base + right * inner, (n - right) * inner);
    copy_run(source, base + (n - right) * inner, target, base, right * inner);
  }
}

}  // namespace

Status infer_Roll(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType& x = ctx.input(0);
  auto shifts = ctx.ints(1), axes = ctx.ints(2);
  if (shifts && axes && shifts->size() != std::max<size_t>(axes->size(), 1))
    return InvalidModel(shifts->size(), " shifts for ", axes->size(), " axes");
  if (axes && x.ranked)
    for (int64_t a : *axes) SMELT_TRY(axis_of(a, x.shape.rank()));
  ctx.set(0, x);
  return Ok();
}

Status reference_Roll(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const auto shifts = ints_of(ctx.input(1)), axes = ints_of(ctx.input(2));
  if (shifts.size() != std::max<size_t>(axes.size(), 1))
    return InvalidInput(shifts.size(), " shifts for ", axes.size(), " axes");
  Tensor& y = ctx.output(0);
  if (x.elements() == 0) return Ok();
  if (axes.empty()) {
    roll_axis(x, y, 1, x.elements(), 1, shifts[0]);
    return Ok();
  }
  Tensor from = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    SMELT_ASSIGN(const int axis, axis_of(axes[i], x.rank()));
    int64_t outer = 1, inner = 1;
    for (int d = 0; d < axis; ++d) outer *= x.dim(d);
    for (int d = axis + 1; d < x.rank(); ++d) inner *= x.dim(d);
    roll_axis(from, y, outer, x.dim(axis), inner, shifts[i]);
    if (i + 1 < axes.size()) from = y.clone();
  }
  return Ok();
}

}  // namespace smelt
