#pragma once

#include <memory>

#include "backends/cpu/conv/conv_transpose.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"

namespace smelt {

/// Packs the weights of group g of a filter: c_in rows of columns (tap, output channel).
[[gnu::cold]] void pack_by_taps(const Spread& s, const GemmF32& gemm, const float* filter, int64_t g, float* packed);
/// A channels-last transposed convolution of float32 with filters that do not overlap, whose operands are words of
/// `gemm`. Returns nullptr for filters that do.
[[gnu::cold]] std::unique_ptr<Kernel> make_conv_transpose_tiles_by(const GemmF32& gemm, const KernelSpec& spec);
/// One of images without groups, line by line. Returns nullptr for volumes, groups and very high filters.
std::unique_ptr<Kernel> make_conv_transpose_lines(const Spread& s, const KernelSpec& spec);

}  // namespace smelt
