#include "ops/elementwise/binary_math.h"

#include <algorithm>

namespace smelt {
namespace {

uint64_t bits_of(int64_t v) { return static_cast<uint64_t>(v); }
int64_t wrapped(uint64_t v) { return static_cast<int64_t>(v); }

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t r = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) r *= base;
  return r;
}

int64_t signed_power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return wrapped(power(bits_of(base), bits_of(exponent)));
  if (base == 1) return 1;
  if (base == -1) return exponent & 1 ? -1 : 1;
  return 0;
}

struct Division {
  int64_t quotient, remainder;
};

/// The quotient truncated.
Division divide(int64_t a, int64_t b, bool is_signed) {
  if (b == 0) return {0, 0};
  if (!is_signed) return {wrapped(bits_of(a) / bits_of(b)), wrapped(bits_of(a) % bits_of(b))};
  if (b == -1) return {wrapped(0 - bits_of(a)), 0};
  return {a / b, a % b};
}

/// The quotient rounded down, the remainder with the divisor's sign.
Division floor_divide(int64_t a, int64_t b, bool is_signed) {
  Division d = divide(a, b, is_signed);
  if (is_signed && d.remainder != 0 && (d.remainder < 0) != (b < 0)) {
    --d.quotient;
    d.remainder += b;
  }
  return d;
}

int64_t signed_copy(int64_t a, int64_t b) {
  const uint64_t magnitude = a < 0 ? 0 - bits_of(a) : bits_of(a);
  return wrapped(b < 0 ? 0 - magnitude : magnitude);
}

int64_t from_real(double v) { return static_cast<int64_t>(std::min(v, 9.2e18)); }

bool below(int64_t a, int64_t b, bool is_signed) { return is_signed ? a < b : bits_of(a) < bits_of(b); }

/// Counts beyond the width, negative ones included, shift everything out.
int64_t shift_right(int64_t a, int64_t count, int bits, bool arithmetic) {
  if (arithmetic) return a >> (count < 0 || count > 63 ? 63 : count);
  if (count < 0) return 0;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return count >= 64 ? 0 : wrapped((bits_of(a) & mask) >> count);
}

}  // namespace

std::optional<int64_t> binary_int(Binary fn, int64_t a, int64_t b, int bits, bool is_signed) {
  switch (fn) {
#define SMELT_BINARY(name, text, real, integer, complex) \
  case Binary::k##name:                                  \
    return integer;
#include "ops/elementwise/binary_functions.inc"
#undef SMELT_BINARY
    case Binary::kCount:
      break;
  }
  return std::nullopt;
}

std::optional<std::complex<double>> binary_complex(Binary fn, std::complex<double> a, std::complex<double> b) {
  using binary_math::undefined;
  switch (fn) {
#define SMELT_BINARY(name, text, real, integer, complex) \
  case Binary::k##name:                                  \
    return complex;
#include "ops/elementwise/binary_functions.inc"
#undef SMELT_BINARY
    case Binary::kCount:
      break;
  }
  return std::nullopt;
}

}  // namespace smelt
