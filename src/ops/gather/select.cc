#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/gather/gather.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

Status need_mask(const InferContext& ctx, int i) {
  const DType d = ctx.input(i).dtype;
  if (d != DType::kBool && d != DType::kU8 && d != DType::kInvalid)
    return InvalidModel("the mask is ", to_string(d), ", bool expected");
  return Ok();
}

/// Strides of x seen in a shape that it broadcasts to.
Shape spread_strides(const Shape& x, const Shape& out) {
  Shape s = Shape::of_rank(out.rank(), 0);
  const Shape own = x.strides();
  for (int d = x.rank() - 1, e = out.rank() - 1; d >= 0; --d, --e)
    if (x[d] != 1) s[e] = own[d];
  return s;
}

/// Calls f(offset in x, mask value) for every element of the broadcast of both.
template <class F>
void each_masked(const Tensor& x, const Tensor& mask, const Shape& out, F&& f) {
  const Shape xs = spread_strides(x.shape(), out), ms = spread_strides(mask.shape(), out);
  for_each_index(out, [&](const int64_t* index) {
    int64_t at = 0, m = 0;
    for (int d = 0; d < out.rank(); ++d) {
      at += index[d] * xs[d];
      m += index[d] * ms[d];
    }
    return f(at, mask.data<uint8_t>()[m] != 0);
  });
}

}  // namespace

Status infer_MaskedScatter(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  SMELT_TRY(same_dtype(ctx, 0, 2));
  SMELT_TRY(need_mask(ctx, 1));
  const ValueType &x = ctx.input(0), &mask = ctx.input(1);
  if (!x.ranked || !mask.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  SMELT_ASSIGN(const Shape out, broadcast_both(x.shape, mask.shape));
  ctx.set(0, like(x, out));
  return Ok();
}

Status reference_MaskedScatter(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &mask = ctx.input(1), &values = ctx.input(2);
  Tensor& y = ctx.output(0);
  const CopySource source(x), fresh(values);
  CopyTarget target(y);
  int64_t to = 0, used = 0;
  bool short_of_values = false;
  each_masked(x, mask, y.shape(), [&](int64_t at, bool take) {
    if (take && used == values.elements()) {
      short_of_values = true;
      return false;
    }
    copy_run(take ? fresh : source, take ? used++ : at, target, to++, 1);
    return true;
  });
  if (short_of_values) return InvalidInput("the mask takes more than the ", values.elements(), " values of the source");
  return Ok();
}

Status infer_MaskedSelect(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  SMELT_TRY(need_mask(ctx, 1));
  const ValueType &x = ctx.input(0), &mask = ctx.input(1);
  if (x.ranked && mask.ranked) SMELT_TRY(broadcast_both(x.shape, mask.shape));
  ctx.set(0, like(x, Shape{-1}));
  return Ok();
}

Status reference_MaskedSelect(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &mask = ctx.input(1);
  SMELT_ASSIGN(const Shape joint, broadcast_both(x.shape(), mask.shape()));
  SMELT_ASSIGN(const int64_t elements, joint.checked_elements());
  if (elements > (int64_t{1} << 32)) return LimitReached("a mask of shape ", joint.str());
  std::vector<int64_t> offsets;
  each_masked(x, mask, joint, [&](int64_t at, bool take) {
    if (take) offsets.push_back(at);
    return true;
  });
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, x.dtype(), Shape{static_cast<int64_t>(offsets.size())}));
  const CopySource source(x);
  CopyTarget target(*y);
  for (size_t i = 0; i < offsets.size(); ++i) copy_run(source, offsets[i], target, static_cast<int64_t>(i), 1);
  return Ok();
}

Status infer_Compress(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  SMELT_TRY(need_mask(ctx, 1));
  const ValueType& x = ctx.input(0);
  const int64_t axis = ctx.attrs<AxisAttrs>().axis;
  if (axis == INT64_MIN) {
    ctx.set(0, like(x, Shape{-1}));
  } else if (x.ranked) {
    SMELT_ASSIGN(const int at, axis_of(axis, x.shape.rank()));
    Shape out = x.shape;
    out[at] = -1;
    ctx.set(0, like(x, out));
  } else {
    ctx.set(0, like_unranked(x));
  }
  return Ok();
}

Status reference_Compress(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &condition = ctx.input(1);
  const int64_t given = ctx.attrs<AxisAttrs>().axis;
  Tensor flat = x.reshaped(Shape{x.elements()});
  const Tensor& from = given == INT64_MIN ? flat : x;
  SMELT_ASSIGN(const int axis, axis_of(given == INT64_MIN ? 0 : given, from.rank()));
  const int64_t extent = from.dim(axis);
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < condition.elements(); ++i) {
    if (!condition.data<uint8_t>()[i]) continue;
    SMELT_TRY(index_of(i, extent));
    kept.push_back(i);
  }
  Shape out = from.shape();
  out[axis] = static_cast<int64_t>(kept.size());
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, x.dtype(), out));
  if (y->elements() == 0) return Ok();
  const Around around(from.shape(), axis);
  const CopySource source(from);
  CopyTarget target(*y);
  int64_t to = 0;
  for (int64_t o = 0; o < around.outer; ++o)
    for (int64_t i : kept) {
      copy_run(source, (o * extent + i) * around.inner, target, to, around.inner);
      to += around.inner;
    }
  return Ok();
}

}  // namespace smelt
