// Products in float64 by 32-bit integers, bit-equal with rescale_single() of ops/common/fixed_point.h.

// p + 2^bit, modulo 2^128.
uvec4 add_power(uvec4 p, uint bit) {
  const uint one = 1u << (bit & 31u), word = bit >> 5;
  uint carry;
  p.x = uaddCarry(p.x, word == 0u ? one : 0u, carry);
  p.y = uaddCarry(p.y, word == 1u ? one : carry, carry);
  p.z = uaddCarry(p.z, word == 2u ? one : carry, carry);
  p.w += word == 3u ? one : carry;
  return p;
}
// p / 2^n, rounded down; 0 <= n < 128.
uvec4 shift_right(uvec4 p, uint n) {
  if (n >= 64u) p = uvec4(p.zw, 0u, 0u);
  if ((n & 32u) != 0u) p = uvec4(p.yzw, 0u);
  const uint bits = n & 31u;
  return bits == 0u ? p : p >> bits | uvec4(p.yzw, 0u) << (32u - bits);
}
// x * factor rounded to float64, then to the nearest integer, ties up; saturates to 31 bits. x: at most 2^53, low word
// first. factor: as Float64Factor (vulkan/gemm/float64_factor.h) holds it.
uint rounded_product(uvec2 x, uvec2 factor) {
  const uvec2 m = uvec2(factor.x << 21 | factor.y >> 8 & 0x1fffffu, factor.x >> 11);
  const uint shift = factor.y & 0xffu;
  uvec4 p;
  uvec2 high, low, carry;
  umulExtended(x.xx, m, high, low);
  p.x = low.x;
  p.y = uaddCarry(high.x, low.y, carry.x);
  p.z = high.y + carry.x;
  umulExtended(x.yy, m, high, low);
  p.y = uaddCarry(p.y, low.x, carry.x);
  p.z = uaddCarry(p.z, high.x, carry.y);
  p.w = high.y + carry.y;
  p.z = uaddCarry(p.z, carry.x, carry.y);
  p.w += carry.y;
  p.z = uaddCarry(p.z, low.y, carry.x);
  p.w += carry.x;
  // Of 53 bits that float64 keeps, a tie of integers has zeros at the end: only values within half a unit below it
  // become one.
  const int top = p.w != 0u ? 96 + findMSB(p.w) : p.z != 0u ? 64 + findMSB(p.z) : p.y != 0u ? 32 + findMSB(p.y) : 0;
  if (top >= 53) p = add_power(p, uint(top - 53));
  p = shift_right(add_power(p, shift - 1u), shift);
  return p.y != 0u || p.z != 0u || p.w != 0u ? 0x7fffffffu : min(p.x, 0x7fffffffu);
}
