#pragma once

#include "ops/matmul/matmul.h"
#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// The input of ExpertMatMul that is the first expert's matrix.
constexpr int kFirstExpert = 2;

/// Sizes of one ExpertMatMul; -1 where not known yet.
struct ExpertGeometry {
  int64_t tokens = -1, each = -1;  ///< T, and K experts of each
  int64_t in = -1, out = -1;
  bool shared = false;                  ///< all experts of a token have the same row
  bool one_x = false, one_ids = false;  ///< x, or ids, has one token, which all of the other one's tokens share
  /// The row of x, counted over all of them, that row `row` of y is a product of.
  int64_t row_of_x(int64_t row) const {
    if (shared) return one_x ? 0 : row / each;
    return one_x ? row % each : row;
  }
  /// The expert of row `row` of y; an error unless it is one of so many.
  Result<int64_t> expert_of(const Tensor& ids, int64_t row, int64_t experts) const;
};
Result<ExpertGeometry> expert_geometry(const ExpertMatMulAttrs& a, const Shape& x, const Shape& ids,
                                       const Shape& matrix);

/// Matrix e of a constant of matrices [E, rows, columns], whose elements are whole bytes: a view of it.
Tensor matrix_of(const Tensor& matrices, int64_t e);

}  // namespace smelt
