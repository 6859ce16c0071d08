#pragma once

#include "ops/common/operands.h"
#include "ops/conv/geometry.h"

namespace smelt {

/// Convolution on stored integers: x has one scale, the filter one for all or for each output channel.
bool runs_on_integers(const Tensor& x, const Tensor& filter, const ConvAttrs& a);
Status quantized_conv(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed);

/// Float x quantized to int8 for each image at run time, with an integer filter.
bool runs_hybrid(const Tensor& x, const Tensor& filter, const ConvAttrs& a);
Status hybrid_conv(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed);

}  // namespace smelt
