#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

struct DimRange {
  int64_t start, end;
};

/// Dimensions [start, end) that a ShapeOf gives of a value of this rank; out of range is clamped.
DimRange dim_range(const ShapeOfAttrs& a, int64_t rank) {
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  const int64_t start = clamp(a.start);
  return {start, std::max(start, clamp(a.end))};
}

}  // namespace

Status infer_ShapeOf(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const auto& a = ctx.attrs<ShapeOfAttrs>();
  Shape out{-1};
  if (ctx.input(0).ranked) {
    const DimRange r = dim_range(a, ctx.input(0).shape.rank());
    out[0] = r.end - r.start;
  }
  ctx.set(0, ValueType::tensor(a.to, out));
  return Ok();
}

Status reference_ShapeOf(KernelContext& ctx) {
  const Shape& x = ctx.input(0).shape();
  const DimRange r = dim_range(ctx.attrs<ShapeOfAttrs>(), x.rank());
  for (int64_t i = r.start; i < r.end; ++i) set_int(ctx.output(0), i - r.start, x[static_cast<int>(i)]);
  return Ok();
}

Status infer_SizeOf(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  ctx.set(0, ValueType::tensor(ctx.attrs<ShapeOfAttrs>().to, Shape{}));
  return Ok();
}

Status reference_SizeOf(KernelContext& ctx) {
  set_int(ctx.output(0), 0, ctx.input(0).elements());
  return Ok();
}

Status infer_RankOf(InferContext& ctx) { return infer_SizeOf(ctx); }

Status reference_RankOf(KernelContext& ctx) {
  set_int(ctx.output(0), 0, ctx.input(0).rank());
  return Ok();
}

Status infer_Fill(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& value = ctx.input(1);
  if (value.ranked && value.shape.is_static()) {
    SMELT_ASSIGN(const int64_t n, value.shape.checked_elements());
    if (n != 1) return InvalidModel("the value to fill with has ", n, " elements, 1 expected");
  }
  if (auto dims = ctx.ints(0)) {
    SMELT_ASSIGN(const Shape out, shape_from(*dims));
    ctx.set(0, like(value, out));
  } else if (auto n = entries_of(ctx, 0); n && *n <= Shape::kMaxRank) {
    ctx.set(0, like(value, Shape::of_rank(static_cast<int>(*n), -1)));
  } else {
    ctx.set(0, like_unranked(value));
  }
  return Ok();
}

Result<StridedCopies> copies_Fill(const NodeSpec& spec) {
  if (spec.inputs[1].shape.elements() != 1) return InvalidInput("the value to fill with has not one element");
  return one_copy(broadcast_copy(spec, 1));
}

namespace {

constexpr int64_t kMaxRange = int64_t{1} << 40;

Status range_scalars(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  for (const Tensor* t : {&start, &limit, &delta}) {
    if (t->elements() != 1) return InvalidModel("start, limit and delta have to be scalars");
    if (t->dtype() != start.dtype()) return InvalidModel("start, limit and delta differ in element type");
  }
  if (!is_float(start.dtype()) && !is_integer(start.dtype()))
    return InvalidModel("a range of ", to_string(start.dtype()));
  return Ok();
}

/// Number of entries of start, start + delta, ... before limit.
Result<int64_t> range_length(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  SMELT_TRY(range_scalars(start, limit, delta));
  double length;
  if (is_float(start.dtype())) {
    const double step = get_double(delta, 0);
    if (step == 0 || std::isnan(step)) return InvalidInput("a range with a step of ", step);
    length = std::ceil((get_double(limit, 0) - get_double(start, 0)) / step);
    if (std::isnan(length)) return InvalidInput("a range without bounds");
  } else {
    __int128 a = get_int(start, 0), b = get_int(limit, 0), step = get_int(delta, 0);
    if (step == 0) return InvalidInput("a range with a step of 0");
    if (step < 0) std::swap(a, b);
    if (step < 0) step = -step;
    length = static_cast<double>((b - a + step - 1) / step);
    if (b <= a) length = 0;
  }
  if (length > static_cast<double>(kMaxRange)) return LimitReached("a range of ", length, " entries");
  return std::max<int64_t>(0, static_cast<int64_t>(length));
}

}  // namespace

Status infer_Range(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const Tensor *start = ctx.constant(0), *limit = ctx.constant(1), *delta = ctx.constant(2);
  Shape out{-1};
  if (start && limit && delta) {
    SMELT_ASSIGN(out[0], range_length(*start, *limit, *delta));
  }
  ctx.set(0, ValueType::tensor(ctx.input(0).dtype, out));
  return Ok();
}

Status reference_Range(KernelContext& ctx) {
  const Tensor &start = ctx.input(0), &delta = ctx.input(2);
  SMELT_ASSIGN(const int64_t n, range_length(start, ctx.input(1), delta));
  Tensor& y = ctx.output(0);
  SMELT_TRY(expect_shape(y, Shape{n}));
  if (is_float(start.dtype())) {
    const double first = get_double(start, 0), step = get_double(delta, 0);
    for (int64_t i = 0; i < n; ++i) set_double(y, i, first + static_cast<double>(i) * step);
  } else {
    const auto first = static_cast<uint64_t>(get_int(start, 0)), step = static_cast<uint64_t>(get_int(delta, 0));
    for (int64_t i = 0; i < n; ++i) set_int(y, i, static_cast<int64_t>(first + static_cast<uint64_t>(i) * step));
  }
  return Ok();
}

Status infer_Eye(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (x.ranked && x.shape.rank() != 2) return InvalidModel("a value of rank ", x.shape.rank(), ", 2 expected");
  ctx.set(0, ValueType::tensor(ctx.attrs<FillAttrs>().to, x.ranked ? x.shape : Shape{-1, -1}));
  return Ok();
}

Status reference_Eye(KernelContext& ctx) {
  Tensor& y = ctx.output(0);
  const int64_t offset = ctx.attrs<FillAttrs>().offset;
  if (!is_float(y.dtype()) && !is_integer(y.dtype()) && y.dtype() != DType::kBool)
    return Unsupported("an identity of ", to_string(y.dtype()));
  {
    CopyTarget target(y);
    fill_run(CopySource(zero_element(y.dtype())), 0, target, 0, y.elements());
  }
  if (offset <= -y.dim(0) || offset >= y.dim(1)) return Ok();
  for (int64_t i = std::max<int64_t>(0, -offset); i < y.dim(0) && i + offset < y.dim(1); ++i)
    set_double(y, i * y.dim(1) + i + offset, 1);
  return Ok();
}

}  // namespace smelt
