#pragma once

#include <memory>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"

namespace smelt {

/// A channels-last convolution of float32 whose operands are words of `gemm`; nullptr as for make_NAME() of the kernel
/// list.
[[gnu::cold]] std::unique_ptr<Kernel> make_conv_by(const GemmF32& gemm, const KernelSpec& spec);

}  // namespace smelt
