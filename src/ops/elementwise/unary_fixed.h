#pragma once

#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// TFLite's integer kernels of unary functions. x and y are quantized per tensor. False where TFLite has none for this
/// function and these element types.
bool unary_fixed(const UnaryAttrs& attrs, const Tensor& x, Tensor& y);

}  // namespace smelt
