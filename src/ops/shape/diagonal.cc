#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

namespace smelt {

Status infer_Triangle(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (x.ranked && x.shape.rank() < 2) return InvalidModel("rank ", x.shape.rank(), ", at least 2 expected");
  ctx.set(0, x);
  return Ok();
}

Status reference_Triangle(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const bool upper = ctx.attrs<TriangleAttrs>().upper;
  int64_t k = 0;
  if (ctx.has(1)) {
    if (ctx.input(1).elements() != 1) return InvalidInput("the diagonal has to be one number");
    k = ints_of(ctx.input(1))[0];
  }
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  k = std::clamp(k, -rows - columns, rows + columns);
  const MoveSource source(x), zero(zero_like(x));
  MoveTarget target(ctx.output(0));
  for (int64_t r = 0, at = 0; at < x.elements(); ++r, at += columns) {
    // The first column on or right of the diagonal, or for a lower triangle the first one beyond it.
    const int64_t row = r % rows;
    const int64_t edge = std::clamp<int64_t>(row + k + (upper ? 0 : 1), 0, columns);
    if (upper) {
      fill_run(zero, 0, target, at, edge);
      copy_run(source, at + edge, target, at + edge, columns - edge);
    } else {
      copy_run(source, at, target, at, edge);
      fill_run(zero, 0, target, at + edge, columns - edge);
    }
  }
  return Ok();
}

namespace {

struct DiagonalOf {
  int64_t row = 0, column = 0, length = 0;  ///< first element and number of elements
};

DiagonalOf diagonal_of(int64_t rows, int64_t columns, int64_t offset) {
  DiagonalOf d;
  if (offset >= columns || offset <= -rows) return d;
  d.row = std::max<int64_t>(0, -offset);
  d.column = std::max<int64_t>(0, offset);
  d.length = std::min(rows - d.row, columns - d.column);
  return d;
}

}  // namespace

Status infer_Diagonal(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  const auto& a = ctx.attrs<DiagonalAttrs>();
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  SMELT_ASSIGN(const auto axes, axes_of({a.axis1, a.axis2}, x.shape.rank()));
  Shape out = x.shape;
  const int64_t rows = out[axes[0]], columns = out[axes[1]];
  out.erase(std::max(axes[0], axes[1]));
  out.erase(std::min(axes[0], axes[1]));
  out.push_back(rows < 0 || columns < 0 ? -1 : diagonal_of(rows, columns, a.offset).length);
  ctx.set(0, like(x, out));
  return Ok();
}

Status reference_Diagonal(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const auto& a = ctx.attrs<DiagonalAttrs>();
  SMELT_ASSIGN(const auto axes, axes_of({a.axis1, a.axis2}, x.rank()));
  const Shape strides = x.shape().strides(), to = y.shape().strides();
  const DiagonalOf d = diagonal_of(x.dim(axes[0]), x.dim(axes[1]), a.offset);
  CopyLoop loop;
  loop.from_offset = d.row * strides[axes[0]] + d.column * strides[axes[1]];
  for (int i = 0, o = 0; i < x.rank(); ++i)
    if (i != axes[0] && i != axes[1]) loop.dim(x.dim(i), strides[i], to[o++]);
  loop.dim(d.length, strides[axes[0]] + strides[axes[1]], 1);
  const MoveSource source(x);
  MoveTarget target(y);
  copy(source, target, std::move(loop));
  return Ok();
}

Status infer_MatrixDiag(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (x.shape.rank() < 1 || x.shape.rank() == Shape::kMaxRank)
    return InvalidModel("a diagonal of rank ", x.shape.rank());
  Shape out = x.shape;
  out.push_back(x.shape.back());
  ctx.set(0, like(x, out));
  return Ok();
}

Status reference_MatrixDiag(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const int64_t n = x.shape().back();
  const MoveSource source(x), zero(stored_zero(x.dtype()));
  MoveTarget target(y);
  fill_run(zero, 0, target, 0, y.elements());
  for (int64_t i = 0; i < x.elements(); ++i) copy_run(source, i, target, i / n * n * n + i % n * (n + 1), 1);
  return Ok();
}

Status infer_MatrixSetDiag(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType &x = ctx.input(0), &diagonal = ctx.input(1);
  if (x.ranked && x.shape.rank() < 2) return InvalidModel("rank ", x.shape.rank(), ", at least 2 expected");
  if (x.dtype != diagonal.dtype && x.dtype != DType::kInvalid && diagonal.dtype != DType::kInvalid)
    return InvalidModel("the diagonal is ", to_string(diagonal.dtype), ", ", to_string(x.dtype), " expected");
  if (x.ranked && diagonal.ranked) {
    const int rank = x.shape.rank();
    Shape want(x.shape.dims().first(static_cast<size_t>(rank - 1)));
    const int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1];
    want[rank - 2] = rows < 0 || columns < 0 ? -1 : std::min(rows, columns);
    if (want.is_static() && diagonal.shape.is_static() && !(want == diagonal.shape))
      return InvalidModel("the diagonal has shape ", diagonal.shape.str(), ", ", want.str(), " expected");
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_MatrixSetDiag(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &diagonal = ctx.input(1);
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1), n = std::min(rows, columns);
  const MoveSource source(x), values(diagonal);
  MoveTarget target(ctx.output(0));
  copy_run(source, 0, target, 0, x.elements());
  for (int64_t i = 0; i < diagonal.elements(); ++i)
    copy_run(values, i, target, i / n * rows * columns + i % n * (columns + 1), 1);
  return Ok();
}

namespace {

Status as_strided_fits(const AsStridedAttrs& a, int64_t elements) {
  __int128 lowest = a.offset, highest = a.offset;
  for (size_t i = 0; i < a.size.size(); ++i) {
    if (a.size[i] == 0) return Ok();
    const __int128 reach = static_cast<__int128>(a.size[i] - 1) * a.stride[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  if (lowest < 0 || highest >= elements)
    return InvalidModel("sizes, strides and offset reach outside the ", elements, " elements of the value");
  return Ok();
}

}  // namespace

Status infer_AsStrided(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  const auto& a = ctx.attrs<AsStridedAttrs>();
  if (a.stride.size() != a.size.size()) return InvalidModel(a.size.size(), " sizes and ", a.stride.size(), " strides");
  SMELT_ASSIGN(const Shape out, shape_from(a.size));
  if (x.is_static()) {
    SMELT_ASSIGN(const int64_t n, x.shape.checked_elements());
    SMELT_TRY(as_strided_fits(a, n));
  }
  ctx.set(0, like(x, out));
  return Ok();
}

Status reference_AsStrided(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const auto& a = ctx.attrs<AsStridedAttrs>();
  SMELT_TRY(as_strided_fits(a, x.elements()));
  const Shape to = ctx.output(0).shape().strides();
  CopyLoop loop;
  loop.from_offset = a.offset;
  for (size_t i = 0; i < a.size.size(); ++i) loop.dim(a.size[i], a.stride[i], to[static_cast<int>(i)]);
  const MoveSource source(x);
  MoveTarget target(ctx.output(0));
  copy(source, target, std::move(loop));
  return Ok();
}

Status infer_Unfold(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  const auto& a = ctx.attrs<UnfoldAttrs>();
  if (a.size < 0 || a.step < 1) return InvalidModel("windows of ", a.size, " every ", a.step);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (x.shape.rank() == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  Shape out = x.shape;
  if (x.shape.rank() == 0) {
    // A scalar counts as one entry.
    if (a.size > 1) return InvalidModel("windows of ", a.size, " of a scalar");
    ctx.set(0, like(x, Shape{a.size}));
    return Ok();
  }
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.shape.rank()));
  if (out[axis] >= 0) {
    if (a.size > out[axis]) return InvalidModel("windows of ", a.size, " in a dimension of ", out[axis]);
    out[axis] = (out[axis] - a.size) / a.step + 1;
  }
  out.push_back(a.size);
  ctx.set(0, like(x, out));
  return Ok();
}

Status reference_Unfold(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  const auto& a = ctx.attrs<UnfoldAttrs>();
  const MoveSource source(x);
  MoveTarget target(y);
  if (x.rank() == 0) {
    copy_run(source, 0, target, 0, y.elements());
    return Ok();
  }
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  const Shape strides = x.shape().strides(), to = y.shape().strides();
  CopyLoop loop;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t stride = i != axis ? strides[i] : (y.dim(i) == 1 ? 0 : strides[i] * a.step);
    loop.dim(y.dim(i), stride, to[i]);
  }
  loop.dim(a.size, strides[axis], 1);
  copy(source, target, std::move(loop));
  return Ok();
}

}  // namespace smelt
