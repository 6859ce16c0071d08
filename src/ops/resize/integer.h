#pragma once

#include "ops/op.h"
#include "ops/resize/plan.h"

namespace smelt {

/// Bilinear resampling of quantized images in TFLite's integer arithmetic: two axes, equal grids of input and output.
bool resizes_in_integers(const ResizeAttrs& a, const Tensor& x, const Tensor& y, const std::vector<ResizeAxis>& axes);
Status resize_in_integers(KernelContext& ctx, const ResizeAttrs& a, const std::vector<ResizeAxis>& axes);

}  // namespace smelt
