#include "ops/elementwise/binary_math.h"

#include <algorithm>

namespace smelt {
namespace {

uint64_t bits_of(int64_t v) { return static_cast<uint64_t>(v); }
int64_t signed_of(uint64_t v) { return static_cast<int64_t>(v); }

uint64_t power(uint64_t base, uint64_t exponent) {
  uint64_t r = 1;
  for (; exponent; exponent >>= 1, base *= base)
    if (exponent & 1) r *= base;
  return r;
}

int64_t signed_power(int64_t base, int64_t exponent) {
  if (exponent >= 0) return signed_of(power(bits_of(base), bits_of(exponent)));
  if (base == 1) return 1;
  if (base == -1) return exponent & 1 ? -1 : 1;
  return 0;
}

struct Division {
  int64_t quotient, remainder;  // truncated
};

Division divide(int64_t a, int64_t b, bool is_signed) {
  if (b == 0) return {0, 0};
  if (!is_signed) return {signed_of(bits_of(a) / bits_of(b)), signed_of(bits_of(a) % bits_of(b))};
  if (b == -1) return {signed_of(0 - bits_of(a)), 0};
  return {a / b, a % b};
}

bool below(int64_t a, int64_t b, bool is_signed) { return is_signed ? a < b : bits_of(a) < bits_of(b); }

/// Counts beyond the width, negative ones included, shift everything out.
int64_t shift_right(int64_t a, int64_t count, int bits, bool arithmetic) {
  if (arithmetic) return a >> (count < 0 || count > 63 ? 63 : count);
  if (count < 0) return 0;
  const uint64_t mask = bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return count >= 64 ? 0 : signed_of((bits_of(a) & mask) >> count);
}

}  // namespace

bool binary_int(Binary fn, int64_t a, int64_t b, int bits, bool is_signed, int64_t& y) {
  switch (fn) {
    case Binary::kAdd:
      y = signed_of(bits_of(a) + bits_of(b));
      return true;
    case Binary::kSub:
      y = signed_of(bits_of(a) - bits_of(b));
      return true;
    case Binary::kMul:
      y = signed_of(bits_of(a) * bits_of(b));
      return true;
    case Binary::kDiv:
    case Binary::kTruncDiv:
      y = divide(a, b, is_signed).quotient;
      return true;
    case Binary::kFloorDiv:
    case Binary::kFloorDivMod: {
      const Division d = divide(a, b, is_signed);
      y = is_signed && d.remainder != 0 && (d.remainder < 0) != (b < 0) ? d.quotient - 1 : d.quotient;
      return true;
    }
    case Binary::kMod: {
      const Division d = divide(a, b, is_signed);
      y = is_signed && d.remainder != 0 && (d.remainder < 0) != (b < 0) ? d.remainder + b : d.remainder;
      return true;
    }
    case Binary::kFmod:
      y = divide(a, b, is_signed).remainder;
      return true;
    case Binary::kPow:
      y = is_signed ? signed_power(a, b) : signed_of(power(bits_of(a), bits_of(b)));
      return true;
    case Binary::kMin:
    case Binary::kFmin:
      y = below(b, a, is_signed) ? b : a;
      return true;
    case Binary::kMax:
    case Binary::kFmax:
      y = below(a, b, is_signed) ? b : a;
      return true;
    case Binary::kCopySign: {
      const uint64_t magnitude = is_signed && a < 0 ? 0 - bits_of(a) : bits_of(a);
      y = signed_of(is_signed && b < 0 ? 0 - magnitude : magnitude);
      return true;
    }
    case Binary::kSquaredDifference: {
      const uint64_t d = bits_of(a) - bits_of(b);
      y = signed_of(d * d);
      return true;
    }
    case Binary::kPRelu:
      y = is_signed && a < 0 ? signed_of(bits_of(a) * bits_of(b)) : a;
      return true;
    case Binary::kLogicalAnd:
      y = a != 0 && b != 0;
      return true;
    case Binary::kLogicalOr:
      y = a != 0 || b != 0;
      return true;
    case Binary::kLogicalXor:
      y = (a != 0) != (b != 0);
      return true;
    case Binary::kBitAnd:
      y = a & b;
      return true;
    case Binary::kBitOr:
      y = a | b;
      return true;
    case Binary::kBitXor:
      y = a ^ b;
      return true;
    case Binary::kShiftLeft:
      y = b < 0 || b >= 64 ? 0 : signed_of(bits_of(a) << b);
      return true;
    case Binary::kShiftRight:
      y = shift_right(a, is_signed || b >= 0 ? b : 64, bits, is_signed);
      return true;
    case Binary::kShiftRightLogical:
      y = shift_right(a, is_signed || b >= 0 ? b : 64, bits, false);
      return true;
    case Binary::kEqual:
      y = a == b;
      return true;
    case Binary::kNotEqual:
      y = a != b;
      return true;
    case Binary::kLess:
      y = below(a, b, is_signed);
      return true;
    case Binary::kLessEqual:
      y = !below(b, a, is_signed);
      return true;
    case Binary::kGreater:
      y = below(b, a, is_signed);
      return true;
    case Binary::kGreaterEqual:
      y = !below(a, b, is_signed);
      return true;
    case Binary::kAtan2:
    case Binary::kHypot: {
      const auto p = static_cast<double>(a), q = static_cast<double>(b);
      y = static_cast<int64_t>(std::min(fn == Binary::kAtan2 ? std::atan2(p, q) : std::hypot(p, q), 9.2e18));
      return true;
    }
    case Binary::kCount:
      break;
  }
  return false;
}

bool binary_complex(Binary fn, std::complex<double> a, std::complex<double> b, std::complex<double>& y) {
  switch (fn) {
    case Binary::kAdd:
      y = a + b;
      return true;
    case Binary::kSub:
      y = a - b;
      return true;
    case Binary::kMul:
      y = a * b;
      return true;
    case Binary::kDiv:
      y = a / b;
      return true;
    case Binary::kPow:
      y = std::pow(a, b);
      return true;
    case Binary::kSquaredDifference:
      y = (a - b) * (a - b);
      return true;
    case Binary::kEqual:
      y = a == b;
      return true;
    case Binary::kNotEqual:
      y = a != b;
      return true;
    case Binary::kLogicalAnd:
      y = a != 0.0 && b != 0.0;
      return true;
    case Binary::kLogicalOr:
      y = a != 0.0 || b != 0.0;
      return true;
    case Binary::kLogicalXor:
      y = (a != 0.0) != (b != 0.0);
      return true;
    default:
      return false;
  }
}

}  // namespace smelt
