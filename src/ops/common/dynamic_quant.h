#pragma once

#include <cstdint>

#include "tensor/quant_params.h"

namespace smelt {

/// Asymmetric int8 parameters of a row whose values lie in [low, high]. False if the row is all zero or not finite.
bool choose_asymmetric_quant_params(float low, float high, QuantParams& params);

/// Quantizes one row to int8 as TFLite's hybrid kernels do: symmetric, the largest magnitude at +-127, or asymmetric
/// over the range widened to hold 0. Rounds half away from zero, before the zero point is added. NaN gives 0; which
/// range a row with NaN has is what std::minmax_element finds.
QuantParams quantize_row(const float* values, int64_t n, bool asymmetric, int8_t* out);

/// uint8 parameters of values within [low, high], which holds 0, as DynamicQuantizeLinear chooses them.
struct ByteQuantParams {
  float scale = 1, zero = 0;
};
ByteQuantParams choose_byte_quant_params(float low, float high);

/// Symmetric int8 parameters of a block of values: q = value * inverse, rounded half to even, within +-127.
struct BlockQuantParams {
  float scale = 0, inverse = 0;
};
/// `magnitude`: the largest |value| of the block, NaN if it holds one. An infinite or NaN magnitude makes the scale
/// NaN; where 127 / magnitude overflows, all values become 0.
BlockQuantParams choose_block_quant_params(float magnitude);
/// Quantizes one block; returns its scale.
float quantize_block(const float* values, int64_t n, int8_t* out);

}  // namespace smelt
