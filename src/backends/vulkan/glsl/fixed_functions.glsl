// Functions of integer kernels in 32-bit fixed point, bit-equal with ops/common/fixed_functions.h.

// x times 2^n.
int times_pot(int x, int n) { return n >= 0 ? saturating_shift(x, n) : divide_by_pot(x, uint(-n)); }
int half_sum(int a, int b) { return int((uint(a) + uint(b) + 1u) >> 1); }  // precondition: neither is negative

// 1 / (1 + a) in Q0 for a in [0, 1), by Newton-Raphson.
int one_over_one_plus(int a) {
  const int half_denominator = half_sum(a, 0x7fffffff);
  int x = 1515870810 + high_mul(half_denominator, -1010580540);
  for (int i = 0; i < 3; ++i) x += saturating_shift(high_mul(x, (1 << 29) - high_mul(half_denominator, x)), 2);
  return saturating_shift(x, 1);
}

// 1 / sqrt(x) for x >= 0 (0 counts as 1) as a multiplier and a shift to the left.
void inverse_sqrt(int x, out int multiplier, out int shift) {
  multiplier = 0x7fffffff;
  shift = 0;
  if (x <= 1) return;
  int right = 11;
  for (; x >= 1 << 29; x /= 4) ++right;
  const int pairs = (30 - findMSB(x)) / 2 - 1;
  right -= pairs;
  x <<= 2 * pairs;
  const int half_input = divide_by_pot(x >> 1, 1), half_three = (1 << 28) + (1 << 27);
  int r = 1 << 28;  // in Q3
  for (int i = 0; i < 5; ++i) {
    const int cube = saturating_shift(high_mul(high_mul(r, r), r), 6);
    r = saturating_shift(high_mul(half_three, r) - high_mul(half_input, cube), 3);
  }
  multiplier = high_mul(r, 1518500250) << max(-right, 0);  // by sqrt(1/2)
  shift = -max(right, 0);
}

// log(x) in Q5 for x >= 1 in Q12.
int log_q12(int x) {
  const int root_half = 1518500250, fourth_root_half = 1805811301, quarter = 1 << 23;
  const int zeros = 31 - findMSB(x), headroom = 30 - findMSB(high_mul(x, root_half));
  const int near = saturating_shift(high_mul(saturating_shift(x, zeros - 1), root_half), 1);
  const int r = min(near, saturating_shift(x, headroom));
  const int power = max((12 - zeros) * (1 << 25) + quarter, (12 - headroom) * (1 << 25) - quarter);
  const int p = half_sum(r, fourth_root_half), q = 2 * (r - fourth_root_half), square = high_mul(q, q);
  // A rational approximation around 2^(-1/4).
  const int numerator = high_mul(q, r) + high_mul(high_mul(q, square), 117049297);
  const int denominator = high_mul(p, 1057819769 + q + high_mul(127690142, square)) + high_mul(638450708, q);
  const int quotient = high_mul(divide_by_pot(numerator, 6), one_over_one_plus(denominator));
  return saturating_shift(high_mul(power, 1488522236) + quotient, 1);
}
