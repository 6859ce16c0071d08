#include "ops/matmul/geometry.h"

#include <algorithm>

#include "base/error.h"
#include "ops/common/index.h"

namespace smelt {

double MatMulAttrs::multiply_adds(std::span<const ValueType> inputs, const ValueType& output) const {
  const Shape& b = inputs[1].shape;
  return static_cast<double>(output.shape.elements()) *
         static_cast<double>(dim_or_one(b, b.rank() - (transpose_b || b.rank() < 2 ? 1 : 2)));
}

namespace {

/// Row-major strides that tolerate unknown dimensions.
Shape loose_strides(const Shape& s) {
  Shape out = Shape::of_rank(s.rank(), 1);
  for (int i = s.rank() - 2; i >= 0; --i) {
    int64_t r = 0;
    if (s[i + 1] < 0 || __builtin_mul_overflow(out[i + 1], s[i + 1], &r)) r = 0;
    out[i] = r;
  }
  return out;
}

/// `column_vector`: a 1-D operand is a column (right operand) instead of a row.
MatrixView view_of(const Shape& s, bool transpose, bool trans_batch, bool column_vector) {
  MatrixView v;
  const Shape strides = loose_strides(s);
  const int rank = s.rank();
  if (rank == 1) {
    v.rows = column_vector ? s[0] : 1;
    v.columns = column_vector ? 1 : s[0];
    v.row_stride = v.column_stride = 1;
    return v;
  }
  int row = rank - 2, column = rank - 1, first = 0, last = rank - 2;
  if (trans_batch && rank > 2) {
    row = 0;
    first = 1;
    last = rank - 1;
  }
  if (transpose) std::swap(row, column);
  v.rows = s[row];
  v.columns = s[column];
  v.row_stride = strides[row];
  v.column_stride = strides[column];
  for (int i = first; i < last; ++i) {
    v.batch.push_back(s[i]);
    v.batch_strides.push_back(strides[i]);
  }
  return v;
}

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape out = Shape::of_rank(std::max(a.rank(), b.rank()), 1);
  for (int i = 1; i <= out.rank(); ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1, y = i <= b.rank() ? b[b.rank() - i] : 1;
    int64_t& d = out[out.rank() - i];
    if (x == 1)
      d = y;
    else if (y == 1 || x == y)
      d = x;
    else if (x < 0 || y < 0)
      d = std::max(x, y);
    else
      return InvalidInput("batch dimensions ", a.str(), " and ", b.str(), " do not broadcast");
  }
  return out;
}

}  // namespace

Result<MatMulGeometry> matmul_geometry(const MatMulAttrs& attrs, const Shape& a, const Shape& b) {
  if (a.rank() == 0 || b.rank() == 0) return InvalidModel("an operand of a matrix product is a scalar");
  MatMulGeometry g;
  g.b = view_of(b, attrs.transpose_b, attrs.trans_batch_b, true);
  if (attrs.flatten_a) {
    Shape flat{-1, g.b.rows};
    int64_t elements = 1;
    for (int64_t d : a.dims())
      if (elements >= 0 && (d < 0 || __builtin_mul_overflow(elements, d, &elements))) elements = -1;
    if (elements >= 0 && g.b.rows > 0) {
      if (elements % g.b.rows != 0)
        return InvalidInput("an operand of shape ", a.str(), " can't be cut into rows of ", g.b.rows);
      flat[0] = elements / g.b.rows;
    } else if (g.b.rows == 0) {
      flat[0] = a[0];
    }
    g.a = view_of(flat, false, false, false);
  } else {
    g.a = view_of(a, attrs.transpose_a, attrs.trans_batch_a, false);
  }
  if (g.a.columns >= 0 && g.b.rows >= 0 && g.a.columns != g.b.rows)
    return InvalidInput("matrices of shapes ", a.str(), " and ", b.str(), " can't be multiplied: ", g.a.columns,
                        " columns against ", g.b.rows, " rows");
  g.m = g.a.rows;
  g.n = g.b.columns;
  g.k = std::max(g.a.columns, g.b.rows);
  SMELT_ASSIGN(g.batch, broadcast(g.a.batch, g.b.batch));
  g.output = g.batch;
  if (g.output.rank() + 2 > Shape::kMaxRank) return Unsupported("a matrix product of rank over ", Shape::kMaxRank);
  if (a.rank() > 1 || attrs.flatten_a) g.output.push_back(g.m);
  if (b.rank() > 1) g.output.push_back(g.n);
  return g;
}

}  // namespace smelt
