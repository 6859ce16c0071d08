#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>

#include "ops/elementwise/elementwise.h"
#include "smelt/tensor.h"

namespace smelt {

/// An error that names the first element 0 of an integer divisor (BinaryAttrs::checked_division).
Status check_divisor(const Tensor& divisor);

namespace binary_math {

inline constexpr std::nullopt_t undefined = std::nullopt;

template <class T>
T floor_mod(T a, T b) {
  const T m = std::fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

template <class T>
T floor_div_mod(T a, T b) {
  if (b == 0) return std::copysign(std::numeric_limits<T>::infinity(), a);
  const T mod = std::fmod(a, b);
  const T div = (a - mod) / b;
  return mod != 0 && std::signbit(b) != std::signbit(mod) ? div - 1 : div;
}

/// Calls use(f) with f as a T(T, T) unless f is undefined; true if it called.
template <class T, class F, class Use>
bool use_defined(F f, Use& use) {
  if constexpr (std::is_same_v<std::invoke_result_t<F, T, T>, std::nullopt_t>) {
    return false;
  } else {
    use([f](T a, T b) { return static_cast<T>(f(a, b)); });
    return true;
  }
}

}  // namespace binary_math

/// Calls use(f) with the function as an inlinable functor T(T, T) for float or double; comparisons and logical
/// functions give 0 or 1. False if the function is not defined on reals (the bitwise ones).
template <class T, class Use>
bool with_real_function(Binary fn, Use&& use) {
  using namespace binary_math;
  switch (fn) {
#define SMELT_BINARY(name, text, real, integer, complex) \
  case Binary::k##name:                                  \
    return use_defined<T>([]([[maybe_unused]] T a, [[maybe_unused]] T b) { return real; }, use);
#include "ops/elementwise/binary_functions.inc"
#undef SMELT_BINARY
    case Binary::kCount:
      break;
  }
  return false;
}

/// The function on integers of `bits` bits, held in 64 bits (uint64 as its bit pattern with `is_signed` false). The
/// result wraps when it is written. Division by zero gives 0. nullopt if the function is not defined on integers.
std::optional<int64_t> binary_int(Binary fn, int64_t a, int64_t b, int bits, bool is_signed);

/// The function on complex numbers; nullopt if it is not defined on them.
std::optional<std::complex<double>> binary_complex(Binary fn, std::complex<double> a, std::complex<double> b);

}  // namespace smelt
