// Push constants of shaders that requantize: zero points of image, weights and result, and the result's bounds.
//@ block Requantization requantization
#define REQUANTIZATION int x_zero, w_zero, zero, low, high;

// int32 accumulators become 8-bit quantized values, bit-equal with RequantizeParams (ops/common/requantize_params.h).
// r: bias (added by the caller), factor's bits or multiplier, right shift, zero point of the channel's weights as int8.
// rounding: the value of smelt::Rounding.
int requantize(int v, ivec4 r, uint rounding, int zero, int low, int high) {
  if (rounding == 0) {
    const float f = float(v) * intBitsToFloat(r.y);
    return int(roundEven(min(max(f, float(low - zero)), float(high - zero)))) + zero;
  }
  const bool whole = r.z == 0;
  int hi, lo;
  imulExtended(v, r.y, hi, lo);
  uint carry;
  const uint nudge = rounding == 2 && !whole ? 0u : 1u << 30;
  const uint low_half = uaddCarry(uint(lo), nudge, carry);
  const int q = int((uint(hi) + carry) << 1 | low_half >> 31);
  const int t = rounding == 1 ? q + (q >> 31) : q;
  const int shifted = whole ? q : ((t >> (r.z - 1)) + 1) >> 1;
  return min(max(shifted, low - zero), high - zero) + zero;
}
