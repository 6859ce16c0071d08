#pragma once

#include "ops/matmul/matmul.h"
#include "smelt/result.h"

namespace smelt {

/// One matrix operand: how its dimensions become a batch of [rows, columns] matrices as the product sees them (after
/// transposition).
struct MatrixView {
  Shape batch;  ///< leading dimensions
  int64_t rows = -1, columns = -1;
  int64_t row_stride = 0, column_stride = 0;  ///< in elements
  Shape batch_strides;
};

struct MatMulGeometry {
  MatrixView a, b;
  Shape batch;   ///< broadcast leading dimensions of the result
  Shape output;  ///< of y; unknown dimensions are -1
  int64_t m = -1, n = -1, k = -1;
};

Result<MatMulGeometry> matmul_geometry(const MatMulAttrs& attrs, const Shape& a, const Shape& b);

}  // namespace smelt
