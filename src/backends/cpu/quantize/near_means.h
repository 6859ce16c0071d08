#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "tensor/quant_params.h"

namespace smelt {

/// Bytes of means from sums of bytes, in float32. Where a mean is so near the middle between two integers that the
/// operations of its definition, each rounded, may choose the other one, the definition is asked.
struct NearMeans {
  /// Of sums of `count` <= 2^22 quantized bytes x, zero points included, over the divisor, as y. The definition may
  /// round its operands, the mean and the mean in steps of y to float32.
  NearMeans(const QuantParams& x, const QuantParams& y, int64_t count, int64_t divisor);
  /// True if many means lie midway between two integers: of two or four bytes on one scale, for example.
  bool often_midway() const;

  int32_t offset = 0;         ///< of a sum: what zero points add
  float factor = 0;           ///< from a sum to a mean in steps of y
  float sure = -1;            ///< distance from an integer below which this is the mean's; negative: none is
  int32_t zero;               ///< of y
  int32_t low = 0, high = 0;  ///< bounds of y
};

/// y[i] = clamp(nearest((sums[i] - offset) * factor) + zero, low, high) for i from `first` on. Returns the first i that
/// is not sure, or n.
using NearMeansFn = int64_t (*)(const NearMeans& means, const int32_t* sums, int64_t first, int64_t n, uint8_t* y);
NearMeansFn near_means(Isa isa);

/// All n means; those that are not sure are defined(i).
template <class F>
void each_mean(NearMeansFn near, const NearMeans& means, const int32_t* sums, int64_t n, uint8_t* y, F&& defined) {
  for (int64_t i = 0; (i = near(means, sums, i, n, y)) < n; ++i) y[i] = defined(i);
}

}  // namespace smelt
