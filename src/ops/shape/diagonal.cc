#include <algorithm>

#include "base/error.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
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

Result<StridedCopies> copies_Triangle(const NodeSpec& spec) {
  const ValueType& x = spec.inputs[0];
  const bool upper = spec.attrs<TriangleAttrs>().upper;
  const int rank = x.shape.rank();
  const int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1];
  SMELT_ASSIGN(int64_t k, constant_int(spec, 1, 0));
  k = std::clamp(k, -rows - columns, rows + columns);
  StridedCopies all;
  all.fill = zero_like(type_only(x));
  if (x.shape.elements() == 0) return all;
  const int64_t outer = x.shape.elements() / (rows * columns);
  for (int64_t r = 0; r < rows; ++r) {
    // The first column on or right of the diagonal, or for a lower triangle the first one beyond it.
    const int64_t edge = std::clamp<int64_t>(r + k + (upper ? 0 : 1), 0, columns);
    StridedCopy c;
    c.in_offset = c.out_offset = r * columns + (upper ? edge : 0);
    c.dim(outer, rows * columns, rows * columns);
    c.dim(upper ? columns - edge : edge, 1, 1);
    all.copies.push_back(std::move(c));
  }
  return all;
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

Result<StridedCopies> copies_Diagonal(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const auto& a = spec.attrs<DiagonalAttrs>();
  SMELT_ASSIGN(const auto axes, axes_of({a.axis1, a.axis2}, x.rank()));
  const Shape from = x.strides(), to = spec.outputs[0].shape.strides();
  const DiagonalOf d = diagonal_of(x[axes[0]], x[axes[1]], a.offset);
  StridedCopy c;
  c.in_offset = d.row * from[axes[0]] + d.column * from[axes[1]];
  for (int i = 0, o = 0; i < x.rank(); ++i)
    if (i != axes[0] && i != axes[1]) c.dim(x[i], from[i], to[o++]);
  c.dim(d.length, from[axes[0]] + from[axes[1]], 1);
  return one_copy(std::move(c));
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

Result<StridedCopies> copies_MatrixDiag(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const int64_t n = x.back();
  StridedCopy c;
  c.dim(n == 0 ? 0 : x.elements() / n, n, n * n);
  c.dim(n, 1, n + 1);
  StridedCopies all = one_copy(std::move(c));
  all.fill = zero_element(spec.inputs[0].dtype);
  return all;
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

Result<StridedCopies> copies_MatrixSetDiag(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const int64_t rows = x[x.rank() - 2], columns = x[x.rank() - 1], n = std::min(rows, columns);
  StridedCopies all = one_copy(whole_copy(spec, 0));
  StridedCopy c;
  c.input = 1;
  c.dim(n == 0 ? 0 : x.elements() / (rows * columns), n, rows * columns);
  c.dim(n, 1, columns + 1);
  all.copies.push_back(std::move(c));
  return all;
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

Result<StridedCopies> copies_AsStrided(const NodeSpec& spec) {
  const auto& a = spec.attrs<AsStridedAttrs>();
  SMELT_TRY(as_strided_fits(a, spec.inputs[0].shape.elements()));
  const Shape to = spec.outputs[0].shape.strides();
  StridedCopy c;
  c.in_offset = a.offset;
  for (size_t i = 0; i < a.size.size(); ++i) c.dim(a.size[i], a.stride[i], to[static_cast<int>(i)]);
  return one_copy(std::move(c));
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

Result<StridedCopies> copies_Unfold(const NodeSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const auto& a = spec.attrs<UnfoldAttrs>();
  if (x.rank() == 0) return one_copy(broadcast_copy(spec, 0));
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  const Shape from = x.strides(), to = y.strides();
  StridedCopy c;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t step = i != axis ? 1 : y[i] == 1 ? 0 : a.step;
    c.dim(y[i], from[i] * step, to[i]);
  }
  c.dim(a.size, from[axis], 1);
  return one_copy(std::move(c));
}

}  // namespace smelt
