#pragma once

#include <cstdint>

namespace smelt {

/// Quantization parameters chosen from the range of some values.
struct DynamicRange {
  float scale = 1;
  float inverse = 1;  ///< factor from real to quantized values; 0: divide by `scale` instead
  int64_t zero_point = 0;
  /// The quantized value: rounded half to even, saturated to [lo, hi]. NaN counts as 0.
  int64_t quantize(float x, int64_t lo, int64_t hi) const;
};

/// scale = max|x| / hi, zero point 0. `eps`: smallest scale.
DynamicRange symmetric_range(const float* x, int64_t n, int64_t hi, double eps);
/// The range widened to hold 0, zero point rounded from the smallest value (ONNX DynamicQuantizeLinear).
DynamicRange asymmetric_range(const float* x, int64_t n, int64_t lo, int64_t hi, double eps);
/// The range widened to hold 0, by multiplication with (hi - lo) / (max - min); zero point rounded half to even
/// (XNNPACK).
DynamicRange balanced_range(const float* x, int64_t n, int64_t lo, int64_t hi, double eps);

}  // namespace smelt
