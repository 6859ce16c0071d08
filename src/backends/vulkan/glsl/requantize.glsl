#include "float64_product.glsl"

// Push constants of shaders that requantize: zero points of image, weights and result, and the result's bounds.
//@ block Requantization requantization
#define REQUANTIZATION int x_zero, w_zero, zero, low, high;

// int32 accumulators become 8-bit quantized values, bit-equal with RequantizeParams (ops/common/requantize_params.h).
// r: bias (added by the caller), factor, zero point of the channel's weights as int8. A factor is float32 and 0, a
// multiplier and its right shift, or a Float64Factor (vulkan/gemm/float64_factor.h).
// rounding: the value of smelt::Rounding.
int requantize(int v, ivec4 r, uint rounding, int zero, int low, int high) {
  if (rounding == 0) {
    const float f = float(v) * intBitsToFloat(r.y);
    return int(roundEven(min(max(f, float(low - zero)), float(high - zero)))) + zero;
  }
  if (rounding == 2) {
    const int magnitude = int(rounded_product(uvec2(abs(v), 0u), uvec2(r.yz)));
    return min(max(v < 0 ? -magnitude : magnitude, low - zero), high - zero) + zero;
  }
  const bool whole = r.z == 0;
  int hi, lo;
  imulExtended(v, r.y, hi, lo);
  uint carry;
  const uint low_half = uaddCarry(uint(lo), 1u << 30, carry);
  const int q = int((uint(hi) + carry) << 1 | low_half >> 31);
  const int t = q + (q >> 31);
  const int shifted = whole ? q : ((t >> (r.z - 1)) + 1) >> 1;
  return min(max(shifted, low - zero), high - zero) + zero;
}
