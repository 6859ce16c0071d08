#pragma once

#include <cstdint>

namespace smelt {

/// Fixed-point functions on int16 with `integer_bits` bits before the point (0 to 6); results have none: they are
/// fractions of 2^15. The same polynomial, barrel shifter and Newton steps as TFLite's integer cells, bit by bit.
int16_t logistic_fixed16(int16_t x, int integer_bits);
int16_t tanh_fixed16(int16_t x, int integer_bits);

}  // namespace smelt
