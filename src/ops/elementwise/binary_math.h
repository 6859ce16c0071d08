#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <optional>

#include "ops/common/broadcast.h"
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

}  // namespace binary_math

/// Writes a function of rows of a and b to y: elements of type T, or bytes 0 and 1 if the function gives bool.
template <class T>
using RealRows = void (*)(const T* a, const T* b, void* y, const BroadcastWalk<2>::Rows& rows);
/// A function on float or double; nullptr if it is not defined on reals (the bitwise ones).
template <class T>
RealRows<T> real_rows(Binary fn);

/// The function on integers of `bits` bits, held in 64 bits (uint64 as its bit pattern with `is_signed` false). The
/// result wraps when it is written. Division by zero gives 0. nullopt if the function is not defined on integers.
std::optional<int64_t> binary_int(Binary fn, int64_t a, int64_t b, int bits, bool is_signed);

/// The function on complex numbers; nullopt if it is not defined on them.
std::optional<std::complex<double>> binary_complex(Binary fn, std::complex<double> a, std::complex<double> b);

}  // namespace smelt
