#pragma once

#include <cstdint>

#include "ops/common/fixed_point.h"

namespace smelt {

// Transcendental functions of the integer kernels of TFLite, in 32-bit fixed point. Qm means a number with m integer
// bits (and the sign): raw / 2^(31 - m).

/// exp(a) in Q0 for a <= 0 in Q5.
int32_t fixed_exp_negative_q5(int32_t a);
/// exp(a) in Q0 for a <= 0 in Q(integer_bits), 0 <= integer_bits <= 5.
int32_t fixed_exp_negative(int32_t a, int integer_bits);
/// 1 / (1 + a) in Q0 for a in Q0, a in [0, 1].
int32_t fixed_one_over_one_plus(int32_t a);
/// (1 - a) / (1 + a) in Q0 for a in Q0, a in [0, 1].
int32_t fixed_one_minus_over_one_plus(int32_t a);
/// Logistic function in Q0 of a in Q(integer_bits).
int32_t fixed_logistic(int32_t a, int integer_bits);
/// Hyperbolic tangent in Q0 of a in Q(integer_bits).
int32_t fixed_tanh(int32_t a, int integer_bits);
/// 1 / x in Q0 as mantissa for x > 0 with `integer_bits` integer bits: 1 / x = result * 2^-bits_over_unit.
int32_t fixed_reciprocal(int32_t x, int integer_bits, int* bits_over_unit);
/// 1 / sqrt(x) for an integer x >= 0 (0 counts as 1).
FixedFactor fixed_inverse_sqrt(int32_t x);
/// log(x) in Q5 for x >= 1 in Q12.
int32_t fixed_log_q12(int32_t x);

}  // namespace smelt
