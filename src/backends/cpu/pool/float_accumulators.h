#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Sums and means of quantized bytes as real numbers; results are the same on every level.
struct FloatAccumulators {
  /// sums[c] = sum over t < count of float(scale * (taps[t][c] - zero_point)), added in double precision.
  void (*sum)(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, float scale, int32_t zero_point,
              double* sums);
  /// sums[i] = sum over t < count of x[i * stride + t * step]. Stride 2 may read one element behind those.
  void (*sum_windows)(const double* x, int64_t stride, int64_t step, int64_t count, int64_t n, double* sums);
  /// means[c] = clamp(float(sums[c] / divisor), lo, hi).
  void (*mean)(const double* sums, int64_t n, double divisor, float lo, float hi, float* means);
};
const FloatAccumulators& float_accumulators(Isa isa);

}  // namespace smelt
