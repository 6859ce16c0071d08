#pragma once

#include <cstdint>

namespace smelt {

/// Scale and zero point of a row that was quantized at run time: real = scale * (stored - zero_point).
struct QuantParams {
  float scale = 1;
  int32_t zero_point = 0;
};

/// The asymmetric int8 grid of a row's range; false where there is none (all zero, or not finite).
bool choose_asymmetric_quant_params(float low, float high, QuantParams& grid);

/// Quantizes one row to int8 as TFLite's hybrid kernels do: symmetric to +-127 of the largest magnitude, or asymmetric
/// over the range widened to hold 0. Rounds half away from zero, before the zero point is added.
QuantParams quantize_row(const float* values, int64_t n, bool asymmetric, int8_t* out);

/// The symmetric int8 grid of a block of values: stored = value * inverse, half to even, within +-127.
struct BlockQuantParams {
  float scale = 0, inverse = 0;
};
/// `magnitude`: the largest of the block, NaN if there is one. Values that are not finite spread through the scale;
/// those too small for a grid are 0.
BlockQuantParams choose_block_quant_params(float magnitude);
/// Quantizes one block; returns its scale.
float quantize_block(const float* values, int64_t n, int8_t* out);

}  // namespace smelt
