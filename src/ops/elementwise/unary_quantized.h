#pragma once

#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// Unary functions where x, y or both are quantized. attrs.rounding chooses TFLite's integer kernels, else the values
/// go through float.
Status unary_quantized(const UnaryAttrs& attrs, const Tensor& x, Tensor& y);

}  // namespace smelt
