#pragma once

#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// TFLite's integer kernels of binary functions; inputs and output are quantized per tensor (comparisons give bool).
/// False where TFLite has none for this function and these element types.
bool binary_fixed(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y);

}  // namespace smelt
