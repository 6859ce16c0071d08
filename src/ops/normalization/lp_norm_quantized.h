#pragma once

#include "ops/common/index.h"
#include "ops/normalization/normalization.h"
#include "smelt/tensor.h"

namespace smelt {

/// TFLite's integer L2 normalization along the last dimension. False for combinations that it does not define.
bool l2_norm_fixed(const LpNormAttrs& attrs, const AxisView& view, const Tensor& x, Tensor& y);

}  // namespace smelt
