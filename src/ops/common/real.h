#pragma once

#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// True if a tensor holds quantized integers with scales.
inline bool is_quantized(const Tensor& t) { return t.quant() && !t.quant()->scales.empty() && is_integer(t.dtype()); }

/// Real values of a numeric tensor as floats: dequantized if it is quantized, converted otherwise.
std::vector<float> to_real_vector(const Tensor& t);
/// Writes real values: converted, or quantized by t's parameters (ties away from zero for TFLite's fixed-point rounding
/// rules, to even otherwise).
void store_real(const float* values, Tensor& t);

}  // namespace smelt
