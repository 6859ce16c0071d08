#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "smelt/tensor.h"

namespace smelt {

// Conversions between float and the narrow formats, round to nearest even.
float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f);
/// Rounds a double once (no double rounding through float).
uint16_t f64_to_f16(double d);
inline float bf16_to_f32(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }
uint16_t f32_to_bf16(float f);
/// Value of an element of an 8-bit or 4-bit float format.
float narrow_to_f32(DType dtype, uint8_t bits);
/// The nearest element of an 8-bit or 4-bit float format. `saturate`: out of range becomes the largest finite value
/// instead of infinity or NaN.
uint8_t f32_to_narrow(DType dtype, float value, bool saturate = true);

/// Reads element i of any real numeric or bool tensor (packed sub-byte types too) as double, without quantization.
double get_double(const Tensor& t, int64_t i);
/// Reads element i of any integer or bool tensor; floats are truncated towards zero. uint64 wraps.
int64_t get_int(const Tensor& t, int64_t i);
/// Writes with round-half-even for the narrow floats and truncation plus wrap for integers.
void set_double(Tensor& t, int64_t i, double value);
void set_int(Tensor& t, int64_t i, int64_t value);

/// Whole-tensor conversions into caller's arrays of t.elements() entries.
void to_doubles(const Tensor& t, double* out);
void to_floats(const Tensor& t, float* out);
void to_ints(const Tensor& t, int64_t* out);
void from_doubles(const double* in, Tensor& t);
void from_floats(const float* in, Tensor& t);
void from_ints(const int64_t* in, Tensor& t);

/// n packed integers of 2 or 4 bits, from the low bits of a byte on, as bytes: int8 if the type is signed, else uint8.
void widen_integers(DType dtype, const uint8_t* from, int64_t n, uint8_t* to);

/// Real values of a quantized tensor (t.quant() set; per tensor, axis or block): scale * (q - zero_point), as float32.
void dequantize(const Tensor& t, float* out);
/// Real values of `count` elements of a quantized tensor, from element `first` on.
void dequantize(const Tensor& t, int64_t first, int64_t count, float* out);
/// Quantizes real values by t.quant() with saturation and the given tie rule (half to even, or half away from zero).
void quantize(const float* in, Tensor& t, bool half_away = false);

/// True if tensors of one type and shape are the same storage, or have the same bytes, which are no more than `most`.
bool same_contents(const Tensor& a, const Tensor& b, size_t most = 4096);

/// Smallest and largest value of an integer type (uint64's largest is clipped to INT64_MAX).
int64_t int_min(DType dtype);
int64_t int_max(DType dtype);

}  // namespace smelt
