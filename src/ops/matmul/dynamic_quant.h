#pragma once

#include "ops/core/op.h"
#include "ops/matmul/geometry.h"
#include "ops/matmul/matmul.h"

namespace smelt {

// MatMul of dynamically quantized rows: 8-bit integers whose scales and zero points are inputs 3 and 4.

/// An error if the attributes or operand types don't allow it.
Status check_dynamic_quant(const MatMulAttrs& attrs, const ValueType& a, const ValueType& b);
Status matmul_dynamic_quant(KernelContext& ctx, const MatMulGeometry& g, const MatMulAttrs& attrs);

}  // namespace smelt
