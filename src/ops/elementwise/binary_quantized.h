#pragma once

#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// Binary functions where any of the tensors is quantized. attrs.rounding chooses TFLite's integer kernels, else the
/// values go through float and are rounded half to even.
Status binary_quantized(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b, Tensor& y);

}  // namespace smelt
