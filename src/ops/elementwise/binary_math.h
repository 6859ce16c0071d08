#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>

#include "ops/elementwise/elementwise.h"

namespace smelt {

/// Calls use(f) with the function as an inlinable functor T(T, T) for float or double; comparisons and logical
/// functions give 0 or 1. False when the function is not defined on reals (the bitwise ones).
template <class T, class Use>
bool with_real_function(Binary fn, Use&& use) {
  switch (fn) {
    case Binary::kAdd:
      use([](T a, T b) { return a + b; });
      return true;
    case Binary::kSub:
      use([](T a, T b) { return a - b; });
      return true;
    case Binary::kMul:
      use([](T a, T b) { return a * b; });
      return true;
    case Binary::kDiv:
      use([](T a, T b) { return a / b; });
      return true;
    case Binary::kFloorDiv:
      // The quotient of float32 values may round up to an integer.
      use([](T a, T b) { return static_cast<T>(std::floor(static_cast<double>(a) / static_cast<double>(b))); });
      return true;
    case Binary::kFloorDivMod:
      use([](T a, T b) {
        if (b == 0) return std::copysign(std::numeric_limits<T>::infinity(), a);
        const T mod = std::fmod(a, b);
        const T div = (a - mod) / b;
        return mod != 0 && std::signbit(b) != std::signbit(mod) ? div - 1 : div;
      });
      return true;
    case Binary::kTruncDiv:
      use([](T a, T b) { return std::trunc(a / b); });
      return true;
    case Binary::kPow:
      use([](T a, T b) { return std::pow(a, b); });
      return true;
    case Binary::kMod:
      use([](T a, T b) {
        const T m = std::fmod(a, b);
        return m != 0 && (b < 0) != (m < 0) ? m + b : m;
      });
      return true;
    case Binary::kFmod:
      use([](T a, T b) { return std::fmod(a, b); });
      return true;
    case Binary::kMin:
      use([](T a, T b) { return a < b || a != a ? a : b; });
      return true;
    case Binary::kMax:
      use([](T a, T b) { return a > b || a != a ? a : b; });
      return true;
    case Binary::kFmin:
      use([](T a, T b) { return std::fmin(a, b); });
      return true;
    case Binary::kFmax:
      use([](T a, T b) { return std::fmax(a, b); });
      return true;
    case Binary::kAtan2:
      use([](T a, T b) { return std::atan2(a, b); });
      return true;
    case Binary::kHypot:
      use([](T a, T b) { return std::hypot(a, b); });
      return true;
    case Binary::kCopySign:
      use([](T a, T b) { return std::copysign(a, b); });
      return true;
    case Binary::kSquaredDifference:
      use([](T a, T b) { return (a - b) * (a - b); });
      return true;
    case Binary::kPRelu:
      use([](T a, T b) { return a < 0 ? a * b : a; });
      return true;
    case Binary::kLogicalAnd:
      use([](T a, T b) { return T(a != 0 && b != 0); });
      return true;
    case Binary::kLogicalOr:
      use([](T a, T b) { return T(a != 0 || b != 0); });
      return true;
    case Binary::kLogicalXor:
      use([](T a, T b) { return T((a != 0) != (b != 0)); });
      return true;
    case Binary::kEqual:
      use([](T a, T b) { return T(a == b); });
      return true;
    case Binary::kNotEqual:
      use([](T a, T b) { return T(a != b); });
      return true;
    case Binary::kLess:
      use([](T a, T b) { return T(a < b); });
      return true;
    case Binary::kLessEqual:
      use([](T a, T b) { return T(a <= b); });
      return true;
    case Binary::kGreater:
      use([](T a, T b) { return T(a > b); });
      return true;
    case Binary::kGreaterEqual:
      use([](T a, T b) { return T(a >= b); });
      return true;
    default:
      return false;
  }
}

/// The function on integers of `bits` bits, held in 64 bits (uint64 as its bit pattern with `is_signed` false). The
/// result wraps when it is stored. Division by zero gives 0. False when the function is not defined on integers.
bool binary_int(Binary fn, int64_t a, int64_t b, int bits, bool is_signed, int64_t& y);

/// False when the function is not defined on complex numbers.
bool binary_complex(Binary fn, std::complex<double> a, std::complex<double> b, std::complex<double>& y);

}  // namespace smelt
