#pragma once

#include <memory>

#include "backends/cpu/conv/winograd_f32.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// A channels-last convolution of float32 by those transforms, whose transformed operands are words of `gemm`.
[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_by(const ConvShape& g, const GemmF32& gemm,
                                                            const WinogradTransforms& transforms,
                                                            const KernelSpec& spec);

}  // namespace smelt
