#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
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

Result<StridedCopies> copies_Reverse(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  SMELT_ASSIGN(const Ints flipped, constant_ints(spec, 1));
  SMELT_ASSIGN(const auto axes, axes_of(flipped, x.rank()));
  const Shape strides = x.strides();
  StridedCopy c;
  for (int i = 0; i < x.rank(); ++i) c.dim(x[i], strides[i], strides[i]);
  for (int a : axes) {
    c.in_offset += (x[a] - 1) * strides[a];
    c.in_strides[static_cast<size_t>(a)] = -strides[a];
  }
  return one_copy(std::move(c));
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

Result<StridedCopies> copies_ReverseSequence(const NodeSpec& spec) {
  const auto& a = spec.attrs<DiagonalAttrs>();
  const Shape& x = spec.inputs[0].shape;
  SMELT_ASSIGN(const auto axes, axes_of({a.axis1, a.axis2}, x.rank()));
  const int time = axes[0], batch = axes[1];
  SMELT_ASSIGN(const Ints lengths, constant_ints(spec, 1));
  if (static_cast<int64_t>(lengths.size()) != x[batch])
    return InvalidInput(lengths.size(), " lengths for a batch of ", x[batch]);
  for (int64_t n : lengths)
    if (n < 0 || n > x[time]) return InvalidInput("a length of ", n, " for a time dimension of ", x[time]);
  const Shape strides = x.strides();
  StridedCopies all;
  for (int64_t i = 0; i < x[batch]; ++i) {
    const int64_t n = lengths[static_cast<size_t>(i)], first = i * strides[batch];
    StridedCopy reversed, rest;
    for (int d = 0; d < x.rank(); ++d) {
      if (d == batch) continue;
      reversed.dim(d == time ? n : x[d], d == time ? -strides[d] : strides[d], strides[d]);
      rest.dim(d == time ? x[d] - n : x[d], strides[d], strides[d]);
    }
    reversed.in_offset = first + (n - 1) * strides[time];
    reversed.out_offset = first;
    rest.in_offset = rest.out_offset = first + n * strides[time];
    all.copies.push_back(std::move(reversed));
    all.copies.push_back(std::move(rest));
  }
  return all;
}

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

Result<StridedCopies> copies_Roll(const NodeSpec& spec) {
  SMELT_ASSIGN(const Ints shifts, constant_ints(spec, 1));
  SMELT_ASSIGN(const Ints axes, constant_ints(spec, 2));
  if (shifts.size() != std::max<size_t>(axes.size(), 1))
    return InvalidInput(shifts.size(), " shifts for ", axes.size(), " axes");
  Shape x = spec.inputs[0].shape;
  if (x.elements() == 0) return StridedCopies{};
  if (axes.empty()) x = Shape{x.elements()};
  Shape start = Shape::of_rank(x.rank(), 0);  // where entry 0 of each dimension goes
  for (size_t i = 0; i < shifts.size(); ++i) {
    int axis = 0;
    if (!axes.empty()) {
      SMELT_ASSIGN(axis, axis_of(axes[i], x.rank()));
    }
    const int64_t n = x[axis];
    start[axis] = (start[axis] + shifts[i] % n + n) % n;
  }
  std::vector<std::vector<DimRun>> dims;
  for (int d = 0; d < x.rank(); ++d) {
    dims.push_back({neighbours(0, start[d], x[d] - start[d])});
    if (start[d] > 0) dims.back().push_back(neighbours(x[d] - start[d], 0, start[d]));
  }
  StridedCopies all;
  add_separable(all, x, x, dims);
  return all;
}

}  // namespace smelt
