#pragma once

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// The filters (input 1) and the bias (input 2) of a float32 convolution of shape g as panels of `gemm`, a group behind
/// the other: rows (tap, channel) with whole words a tap. Kept in spec.packs; all kernels of a convolution share them.
Packed packed_filter_f32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec);

}  // namespace smelt
