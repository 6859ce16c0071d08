#pragma once

#include <cstdint>
#include <functional>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Some filters of a group, as many as a panel has columns: element (filter, tap, channel) is
/// filters[(filter * taps + tap) * step + channel], step the whole words of c_in channels, with zeros behind them.
struct FilterPanel {
  int64_t group, column;  ///< of its first filter in the group
  int64_t used;           ///< filters
  const float* filters;
};

/// Calls take() for each panel of the filters of a convolution of shape g, on all PackingThreads. `filter`: input 1,
/// float32. Each thread copies a panel at a time: no copy of all stands beside the packed form.
void each_panel_of_filters(const ConvShape& g, const GemmF32& gemm, const Tensor& filter,
                           const std::function<void(const FilterPanel&)>& take);

/// The filters (input 1) and the bias (input 2) of a float32 convolution of shape g as panels of `gemm`, a group behind
/// the other: rows (tap, channel) with whole words a tap. Kept in spec.packs; all kernels of a convolution share them.
Packed packed_filter_f32(const ConvShape& g, const GemmF32& gemm, const KernelSpec& spec);

}  // namespace smelt
