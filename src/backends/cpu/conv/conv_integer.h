#pragma once

#include "backends/cpu/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// The kernel of ConvInteger on channels-last images, also for MatMulInteger in the form of a pointwise convolution:
/// inputs are x, filter, x's zero point, the filter's zero points. Returns nullptr where zero points are neither one
/// for all nor one an output channel.
std::unique_ptr<Kernel> make_integer_kernel(const KernelSpec& spec, const ConvShape& g);

}  // namespace smelt
