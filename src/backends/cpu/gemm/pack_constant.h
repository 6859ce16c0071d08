#pragma once

#include <cstdint>

#include "backends/cpu/gemm/gemm_f32.h"
#include "smelt/tensor.h"

namespace smelt {

/// Packs a constant b as GemmF32::pack does: the elements of `constant`, float32, from `first` on. Strides in floats as
/// there. A block at a time is copied, from a file by reading it: no copy of b stands beside the packed form, and b is
/// read in the order in which it lies.
void pack_constant(const GemmF32& gemm, const Tensor& constant, int64_t first, int64_t stride_k, int64_t stride_n,
                   int64_t k, int64_t n, const float* bias, float* dst, float alpha = 1, float beta = 1);

}  // namespace smelt
