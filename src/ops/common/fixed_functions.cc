#include "ops/common/fixed_functions.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

namespace smelt {
namespace {

constexpr int32_t kOneQ0 = std::numeric_limits<int32_t>::max();

int32_t add(int32_t a, int32_t b) {
  return std::bit_cast<int32_t>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
int32_t sub(int32_t a, int32_t b) {
  return std::bit_cast<int32_t>(static_cast<uint32_t>(a) - static_cast<uint32_t>(b));
}
int32_t mul(int32_t a, int32_t b) { return rounding_doubling_high_mul(a, b); }
int32_t shift(int32_t a, int exponent) { return saturating_rounding_multiply_by_pot(a, exponent); }

int32_t half_sum(int32_t a, int32_t b) {
  const int64_t sum = static_cast<int64_t>(a) + b;
  return static_cast<int32_t>((sum + (sum >= 0 ? 1 : -1)) / 2);
}

/// exp(a) in Q0 for a in Q0, a in [-1/4, 0): a Taylor series around -1/8.
int32_t exp_last_quarter(int32_t a) {
  constexpr int32_t kExpMinusEighth = 1895147668, kThird = 715827883;
  const int32_t x = add(a, 1 << 28);
  const int32_t x2 = mul(x, x), x3 = mul(x2, x), x4 = mul(x2, x2);
  const int32_t tail = shift(add(mul(add(shift(x4, -2), x3), kThird), x2), -1);
  return add(kExpMinusEighth, mul(kExpMinusEighth, add(x, tail)));
}

/// 2 / (1 + a) in Q2 by three Newton-Raphson steps.
int32_t twice_reciprocal_q2(int32_t a) {
  constexpr int32_t k48Over17 = 1515870810, kMinus32Over17 = -1010580540, kOneQ2 = 1 << 29;
  const int32_t half_denominator = half_sum(a, kOneQ0);
  int32_t x = add(k48Over17, mul(half_denominator, kMinus32Over17));
  for (int i = 0; i < 3; ++i) {
    const int32_t rest = sub(kOneQ2, mul(half_denominator, x));
    x = add(x, shift(mul(x, rest), 2));
  }
  return x;
}

}  // namespace

int32_t fixed_exp_negative(int32_t a, int integer_bits) {
  if (a == 0) return kOneQ0;
  const int fractional_bits = 31 - integer_bits;
  const int32_t quarter = 1 << (fractional_bits - 2);
  const int32_t in_quarter = sub(a & (quarter - 1), quarter);
  int32_t result = exp_last_quarter(shift(in_quarter, integer_bits));
  const int32_t remainder = sub(in_quarter, a);
  // exp(-2^e) in Q0 for e = -2 .. 4.
  constexpr int32_t kFactors[] = {1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242};
  for (int e = -2; e <= 4; ++e)
    if (integer_bits > e && (remainder & (1 << (fractional_bits + e)))) result = mul(result, kFactors[e + 2]);
  if (integer_bits > 5 && a < -(1 << (fractional_bits + 5))) return 0;
  return result;
}

int32_t fixed_exp_negative_q5(int32_t a) { return fixed_exp_negative(a, 5); }

int32_t fixed_one_over_one_plus(int32_t a) { return shift(twice_reciprocal_q2(a), 1); }

int32_t fixed_one_minus_over_one_plus(int32_t a) { return shift(sub(twice_reciprocal_q2(a), 1 << 29), 2); }

int32_t fixed_logistic(int32_t a, int integer_bits) {
  if (a == 0) return 1 << 30;
  const int32_t negative = a > 0 ? sub(0, a) : a;
  const int32_t positive = fixed_one_over_one_plus(fixed_exp_negative(negative, integer_bits));
  return a > 0 ? positive : sub(kOneQ0, positive);
}

int32_t fixed_tanh(int32_t a, int integer_bits) {
  if (a == 0) return 0;
  const int32_t negative = a > 0 ? sub(0, a) : a;
  const int32_t t = fixed_one_minus_over_one_plus(fixed_exp_negative(negative, integer_bits + 1));
  return a > 0 ? t : sub(0, t);
}

int32_t fixed_reciprocal(int32_t x, int integer_bits, int* bits_over_unit) {
  const auto u = static_cast<uint32_t>(std::max(x, 1));
  const int zeros = std::countl_zero(u);
  *bits_over_unit = integer_bits - zeros;
  return fixed_one_over_one_plus(std::bit_cast<int32_t>((u << zeros) - (uint32_t{1} << 31)));
}

FixedFactor fixed_inverse_sqrt(int32_t x) {
  if (x <= 1) return {std::numeric_limits<int32_t>::max(), 0};
  int right = 11;
  for (; x >= (1 << 29); x /= 4) ++right;
  const int pairs = (std::countl_zero(static_cast<uint32_t>(x)) - 1) / 2 - 1;
  right -= pairs;
  x <<= 2 * pairs;
  // Newton-Raphson in Q3 from 1.
  const int32_t input = x >> 1, half_input = shift(input, -1), half_three = (1 << 28) + (1 << 27);
  int32_t r = 1 << 28;
  for (int i = 0; i < 5; ++i) {
    const int32_t cube = shift(mul(mul(r, r), r), 6);
    r = shift(sub(mul(half_three, r), mul(half_input, cube)), 3);
  }
  r = mul(r, 1518500250);  // sqrt(1/2)
  if (right < 0) {
    r = std::bit_cast<int32_t>(static_cast<uint32_t>(r) << -right);
    right = 0;
  }
  return {r, -right};
}

int32_t fixed_log_q12(int32_t x) {
  constexpr int kInputBits = 12, kOutputBits = 5, kBits = kOutputBits + 1;
  constexpr int32_t kLog2 = 1488522236, kFourthRootHalf = 1805811301, kRootHalf = 1518500250, kQuarter = 536870912;
  // Coefficients of a rational approximation around 2^(-1/4).
  constexpr int32_t kN = 117049297, kD = 127690142, kI = 1057819769, kF = 638450708;
  const auto saturating_add = [](int32_t a, int32_t b) { return saturate_int32(static_cast<int64_t>(a) + b); };
  const int32_t quarter = shift(kQuarter, -kBits);
  const int zeros_a = std::countl_zero(static_cast<uint32_t>(x));
  const int32_t r_a = shift(mul(shift(x, zeros_a - 1), kRootHalf), 1);
  const int32_t power_a = saturating_add(shift(kInputBits - zeros_a, 31 - kBits), quarter);
  const int32_t b = mul(x, kRootHalf);
  const int headroom_b = std::countl_zero(static_cast<uint32_t>(b)) - 1;
  const int32_t r_b = shift(x, headroom_b);
  const int32_t power_b = saturating_add(shift(kInputBits - headroom_b, 31 - kBits), -quarter);
  const int32_t r = std::min(r_a, r_b), power = std::max(power_a, power_b);
  const int32_t p = half_sum(r, kFourthRootHalf);
  int32_t q = sub(r, kFourthRootHalf);
  q = add(q, q);
  const int32_t square = mul(q, q);
  const int32_t numerator = add(mul(q, r), mul(mul(q, square), kN));
  const int32_t denominator = add(mul(p, add(add(kI, q), mul(kD, square))), mul(kF, q));
  const int32_t quotient = mul(shift(numerator, -kBits), fixed_one_over_one_plus(denominator));
  return shift(add(mul(power, kLog2), quotient), kBits - kOutputBits);
}

}  // namespace smelt
