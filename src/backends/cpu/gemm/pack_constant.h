#pragma once

#include <cstddef>

#include "backends/cpu/gemm/gemm_f32.h"

namespace smelt {

/// Packs a constant b as GemmF32::pack does. b: floats at any address, strides in floats as there. A block at a time is
/// copied, from a file by reading it: no copy of b stands beside the packed form, and b is read in the order in which
/// it lies.
void pack_constant(const GemmF32& gemm, const std::byte* b, int64_t stride_k, int64_t stride_n, int64_t k, int64_t n,
                   const float* bias, float* dst, float alpha = 1, float beta = 1);

}  // namespace smelt
