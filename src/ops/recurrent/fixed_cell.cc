#include "ops/recurrent/fixed_cell.h"

#include <algorithm>

#include "ops/common/fixed_point.h"

namespace smelt {
namespace {

constexpr int16_t kOne = 32767;          // 1 with no integer bits, as near as it goes
constexpr int16_t kOneOfTwoBits = 8192;  // 1 with two integer bits

int16_t wrap(int32_t v) { return static_cast<int16_t>(static_cast<uint16_t>(v)); }
int16_t mul(int16_t a, int16_t b) { return rounding_doubling_high_mul16(a, b); }
int16_t divide_by_pot(int16_t v, int exponent) { return static_cast<int16_t>(rounding_divide_by_pot(v, exponent)); }

int16_t multiply_by_pot(int16_t v, int exponent) {
  if (exponent <= 0) return divide_by_pot(v, -exponent);
  const int32_t limit = (1 << (15 - exponent)) - 1;
  if (v > limit) return 32767;
  if (v < -limit) return -32768;
  return static_cast<int16_t>(v * (1 << exponent));
}

/// A constant of 31 fraction bits in 15.
constexpr int16_t narrow(int32_t v) {
  return static_cast<int16_t>((static_cast<int64_t>(v) + (v < 0 ? 32767 : 32768)) >> 16);
}

/// exp(a) for a in [-1/4, 0), no integer bits: a fourth-order expansion around -1/8.
int16_t exp_small(int16_t a) {
  constexpr int16_t kExpMinusEighth = narrow(1895147668), kThird = narrow(715827883);
  const int16_t x = wrap(a + (1 << 12));
  const int16_t x2 = mul(x, x), x3 = mul(x2, x), x4 = mul(x2, x2);
  const int16_t tail = divide_by_pot(wrap(mul(wrap(divide_by_pot(x4, 2) + x3), kThird) + x2), 1);
  const int32_t sum = kExpMinusEighth + mul(kExpMinusEighth, wrap(x + tail));
  return static_cast<int16_t>(std::clamp(sum, -32768, 32767));
}

/// exp(a) for a <= 0 with `bits` integer bits.
int16_t exp_negative(int16_t a, int bits) {
  if (a == 0) return kOne;
  const int fraction = 15 - bits;
  // A quarter is 2^(fraction - 2), which needs at least two fraction bits: bits is at most 7 here.
  const int16_t quarter = static_cast<int16_t>(1 << (fraction - 2));
  const int16_t rest = wrap((a & (quarter - 1)) - quarter);
  int16_t result = exp_small(multiply_by_pot(rest, bits));
  const int16_t remainder = wrap(rest - a);
  constexpr int32_t kExps[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  for (int e = -2; e <= 4; ++e)
    if (bits > e && (remainder & (1 << (fraction + e)))) result = mul(result, narrow(kExps[e + 2]));
  if (bits > 5 && a < -(1 << (20 - bits))) result = 0;
  return result;
}

/// Newton's division: 1 / ((1 + a) / 2) with two integer bits, a in [0, 1].
int16_t twice_reciprocal(int16_t a) {
  const int32_t sum = static_cast<int32_t>(a) + kOne;
  const auto half = static_cast<int16_t>((sum + 1) / 2);
  int16_t x = wrap(narrow(1515870810) + mul(half, narrow(-1010580540)));
  for (int i = 0; i < 3; ++i) {
    const int16_t error = wrap(kOneOfTwoBits - mul(half, x));
    x = wrap(x + multiply_by_pot(mul(x, error), 2));
  }
  return x;
}

}  // namespace

int16_t tanh_fixed16(int16_t x, int integer_bits) {
  if (x == 0) return 0;
  const int16_t negative = x < 0 ? x : wrap(-x);
  // Doubling the argument is a matter of where the point is.
  const int16_t t =
      multiply_by_pot(wrap(twice_reciprocal(exp_negative(negative, integer_bits + 1)) - kOneOfTwoBits), 2);
  return x < 0 ? wrap(-t) : t;
}

int16_t logistic_fixed16(int16_t x, int integer_bits) {
  if (x == 0) return 1 << 14;
  const int16_t magnitude = x > 0 ? x : wrap(-x);
  // Half of the value with two integer bits is the same number with one.
  const int16_t positive = multiply_by_pot(twice_reciprocal(exp_negative(wrap(-magnitude), integer_bits)), 1);
  return x > 0 ? positive : wrap(kOne - positive);
}

}  // namespace smelt
