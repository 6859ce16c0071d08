#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "smelt/tensor.h"

namespace smelt {

/// Fixed-point rescaling as the integer kernels of TFLite define it: a positive real factor is multiplier * 2^(shift -
/// 31) with multiplier in [2^30, 2^31), or zero.
struct FixedFactor {
  int32_t multiplier = 0;
  int shift = 0;  ///< positive: to the left
};

/// The nearest FixedFactor of a finite non-negative real factor.
inline FixedFactor fixed_factor(double factor) {
  if (!(factor > 0) || !std::isfinite(factor)) return {};
  constexpr int kFraction = 52;  // bits of a float64 without its leading one
  const auto bits = std::bit_cast<uint64_t>(factor);
  FixedFactor f;
  f.shift = static_cast<int>(bits >> kFraction) - 1022;
  if (f.shift < -32) return {};
  constexpr uint64_t kOne = uint64_t{1} << kFraction;
  uint64_t fixed = ((bits & (kOne - 1)) + kOne + (1u << 21)) >> 22;  // ties away from zero
  if (fixed == uint64_t{1} << 31) {
    fixed /= 2;
    ++f.shift;
  }
  if (f.shift < -31) return {};
  if (f.shift > 30) return {std::numeric_limits<int32_t>::max(), 30};
  f.multiplier = static_cast<int32_t>(fixed);
  return f;
}

inline int32_t saturate_int32(int64_t v) {
  if (v > std::numeric_limits<int32_t>::max()) return std::numeric_limits<int32_t>::max();
  if (v < std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(v);
}

/// High half of 2ab, rounded to nearest with ties towards plus infinity; saturates INT32_MIN^2.
inline int32_t rounding_doubling_high_mul(int32_t a, int32_t b) {
  if (a == b && a == std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::max();
  const int64_t ab = static_cast<int64_t>(a) * b;
  const int64_t nudge = ab >= 0 ? int64_t{1} << 30 : 1 - (int64_t{1} << 30);
  return static_cast<int32_t>((ab + nudge) / (int64_t{1} << 31));
}
inline int16_t rounding_doubling_high_mul16(int16_t a, int16_t b) {
  if (a == b && a == std::numeric_limits<int16_t>::min()) return std::numeric_limits<int16_t>::max();
  const int32_t ab = static_cast<int32_t>(a) * b;
  const int32_t nudge = ab >= 0 ? 1 << 14 : 1 - (1 << 14);
  return static_cast<int16_t>((ab + nudge) / (1 << 15));
}

/// x / 2^exponent rounded to nearest with ties away from zero. Precondition: 0 <= exponent <= 31.
inline int32_t rounding_divide_by_pot(int32_t x, int exponent) {
  const int32_t mask = static_cast<int32_t>((int64_t{1} << exponent) - 1);
  const int32_t remainder = x & mask;
  const int32_t threshold = (mask >> 1) + (x < 0 ? 1 : 0);
  return static_cast<int32_t>((static_cast<int64_t>(x) >> exponent) + (remainder > threshold ? 1 : 0));
}

/// x * 2^exponent with saturation (exponent > 0), or rounding_divide_by_pot.
inline int32_t saturating_rounding_multiply_by_pot(int32_t x, int exponent) {
  if (exponent <= 0) return rounding_divide_by_pot(x, -exponent);
  return saturate_int32(static_cast<int64_t>(x) * (int64_t{1} << exponent));
}

/// Rescaling with two roundings (Rounding::kFixedDouble); the left shift wraps.
inline int32_t rescale_double(int32_t x, FixedFactor f) {
  const int left = f.shift > 0 ? f.shift : 0, right = f.shift > 0 ? 0 : -f.shift;
  const int32_t shifted = static_cast<int32_t>(static_cast<uint32_t>(x) << left);
  return rounding_divide_by_pot(rounding_doubling_high_mul(shifted, f.multiplier), right);
}

/// The largest float64 below 0.5: trunc(v + kAlmostHalf) rounds v >= 0 to the nearest integer, ties up.
inline constexpr double kAlmostHalf = 0.49999999999999994;

/// Rescaling of a 32- or 64-bit accumulator with one rounding (Rounding::kDoubleHalfAway): the product in float64,
/// rounded to the nearest integer, ties away from zero. Saturates to 32 bits. Precondition: the factor is finite.
inline int32_t rescale_single(int64_t x, double factor) {
  const double v = std::clamp(static_cast<double>(x) * factor, -2147483648.0, 2147483647.0);
  return static_cast<int32_t>(v + std::copysign(kAlmostHalf, v));
}

/// rescale_wide() before saturation.
inline __int128 wide_product(int64_t x, FixedFactor f) {
  const int32_t reduced = f.multiplier < 0x7fff0000 ? (f.multiplier + (1 << 15)) >> 16 : 0x7fff;
  const int total = 15 - f.shift;
  const __int128 product = static_cast<__int128>(x) * reduced;
  return total > 0 ? (product + (static_cast<__int128>(1) << (total - 1))) >> total
                   : product * (static_cast<__int128>(1) << -total);
}

/// Rescaling of a 64-bit accumulator (int16 activations): multiplier cut to 16 bits, one rounding, ties towards plus
/// infinity; saturates to 32 bits.
inline int32_t rescale_wide(int64_t x, FixedFactor f) {
  const __int128 value = wide_product(x, f);
  if (value > std::numeric_limits<int32_t>::max()) return std::numeric_limits<int32_t>::max();
  if (value < std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(value);
}

}  // namespace smelt
