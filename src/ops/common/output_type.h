#pragma once

#include "ops/core/op.h"

namespace smelt {

/// Element type of output 0 of an operator that computes with its operands' real values: the declared type when
/// quantization is involved, float32 when a quantized operand has no declared result, else the type of operand `x`.
DType real_result_type(const InferContext& ctx, int x = 0);

}  // namespace smelt
