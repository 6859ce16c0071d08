#pragma once

#include "ops/common/index.h"
#include "ops/softmax/softmax.h"
#include "smelt/tensor.h"

namespace smelt {

/// TFLite's integer softmax and log-softmax. False for combinations that it does not define.
bool softmax_fixed(const SoftmaxAttrs& attrs, const AxisView& view, const Tensor& x, Tensor& y);

}  // namespace smelt
