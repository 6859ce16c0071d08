#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace smelt::vulkan {

/// A finite positive float64 factor m * 2^-shift as float64_product.glsl reads it: m has 53 bits, its top bit set.
struct Float64Factor {
  uint32_t high = 0;           ///< the upper 32 bits of m
  uint32_t low_and_shift = 1;  ///< the lower 21 bits of m, then 8 bits: shift in [1, 127]

  /// Factors below 2^-75 become zero: no product of 2^53 with them reaches 1/2. Those from 2^52 on become less than
  /// they are: products with them are beyond 32 bits.
  static Float64Factor of(double factor) {
    int exponent;
    const auto m = static_cast<uint64_t>(std::ldexp(std::frexp(factor, &exponent), 53));
    const int shift = std::max(53 - exponent, 1);
    if (shift > 127) return {};
    return {static_cast<uint32_t>(m >> 21), static_cast<uint32_t>(m & 0x1fffff) << 8 | static_cast<uint32_t>(shift)};
  }
};

}  // namespace smelt::vulkan
