#pragma once

#include <vector>

#include "smelt/tensor.h"

namespace smelt {

/// Whether a tensor holds integers that stand for reals.
inline bool is_quantized(const Tensor& t) { return t.quant() && !t.quant()->scales.empty() && is_integer(t.dtype()); }

/// Real values of any numeric tensor as floats: dequantized where it is quantized, converted else.
std::vector<float> real_values(const Tensor& t);
/// Stores real values: quantized by t's parameters (ties as its rounding says: half away from zero for TFLite's
/// fixed-point kernels, half to even else) or converted.
void store_real(const float* values, Tensor& t);

}  // namespace smelt
