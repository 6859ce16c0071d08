#pragma once

#include "ops/common/operands.h"
#include "ops/conv/geometry.h"

namespace smelt {

/// True if the convolution runs on quantized integers: x has one scale, the filter one for all or for each output
/// channel.
bool runs_on_integers(const Tensor& x, const Tensor& filter, const ConvAttrs& a);
Status quantized_conv(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed);

/// True for float x with an integer filter: x is quantized to int8 at run time, image by image.
bool runs_dynamic_quant(const Tensor& x, const Tensor& filter, const ConvAttrs& a);
Status dynamic_quant_conv(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed);

}  // namespace smelt
