#pragma once

#include "ops/core/op.h"
#include "ops/matmul/geometry.h"
#include "ops/matmul/matmul.h"

namespace smelt {

/// Products of rows of 8-bit integers whose scales and zero points are inputs 3 and 4 of MatMul.
Status check_scaled_rows(const MatMulAttrs& attrs, const ValueType& a, const ValueType& b);
Status scaled_rows_product(KernelContext& ctx, const MatMulGeometry& g, const MatMulAttrs& attrs);

}  // namespace smelt
