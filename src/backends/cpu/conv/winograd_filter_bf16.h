#pragma once

#include "backends/cpu/conv/winograd_f32.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// The transformed filters (input 1) of a 3x3 convolution of shape g as words of `gemm`, and the bias (input 2), panel
/// by panel: a row of bias, then for every `chunk` channels the rows of each position. A panel is as large as one of
/// gemm.words(g.c_in) * positions rows. Kept in spec.packs. Precondition: `chunk` and g.c_in are multiples of 16.
Packed winograd_filter_bf16(const ConvShape& g, const GemmF32& gemm, const WinogradTransforms& transforms,
                            int64_t chunk, const KernelSpec& spec);

}  // namespace smelt
