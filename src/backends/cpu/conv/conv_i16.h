#pragma once

#include "backends/cpu/core/kernel.h"
#include "ops/common/rescale_rule.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// The kernel of a channels-last convolution of 16-bit values with a constant 8-bit filter, also for products in the
/// form of a pointwise convolution. `axis`: that of output channels in the filter. Returns nullptr and records
/// why where the quantization is another.
std::unique_ptr<Kernel> make_i16_kernel(const KernelSpec& spec, const ConvShape& g, int axis, const RescaleRule& rule);

}  // namespace smelt
