// 32-bit fixed point, bit-equal with ops/common/fixed_point.h.

// The high word of 2ab, rounded to nearest, ties away from zero. Precondition: not both are the least integer.
int high_mul(int a, int b) {
  const bool negative = (a ^ b) < 0 && a != 0 && b != 0;
  uint high, low, carry;
  umulExtended(uint(abs(a)), uint(abs(b)), high, low);
  low = uaddCarry(low, negative ? (1u << 30) - 1 : 1u << 30, carry);
  const int r = int((high + carry) << 1 | low >> 31);
  return negative ? -r : r;
}
int saturating_shift(int a, int n) {
  const int limit = 0x7fffffff >> n;
  return a > limit ? 0x7fffffff : a < -limit - 1 ? -0x7fffffff - 1 : a << n;
}
int divide_by_pot(int x, uint n) {
  const int mask = int((1u << n) - 1u);
  return (x >> n) + ((x & mask) > (mask >> 1) + (x < 0 ? 1 : 0) ? 1 : 0);
}
// x times a factor: a multiplier and a shift to the left (FixedFactor).
int rescale_double(int x, int multiplier, int shift) {
  return divide_by_pot(high_mul(x << max(shift, 0), multiplier), uint(max(-shift, 0)));
}
#ifdef INT64
// x times a factor by 16 bits of its multiplier; saturates. Accumulators beyond 2^48 count as 2^48: 16-bit results are
// at their bounds by then.
int rescale_wide(int64_t x, int multiplier, int shift) {
  const int64_t reduced = multiplier < 0x7fff0000 ? (multiplier + (1 << 15)) >> 16 : 0x7fff;
  const int total = 15 - shift;
  const int64_t bound = int64_t(1) << (total > 0 ? 48 : 17);
  const int64_t product = clamp(x, -bound, bound) * reduced;
  const int64_t value = total > 0 ? (product + (int64_t(1) << max(total - 1, 0))) >> max(total, 0) : product << -total;
  return int(clamp(value, int64_t(-0x7fffffff - 1), int64_t(0x7fffffff)));
}
#endif
