#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace smelt {

/// Arithmetic on numbers that a file gave: nullopt on overflow.
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
/// True when [offset, offset + length) lies inside [0, size).
inline bool in_range(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

/// a / b rounded up, for a >= 0 and b > 0.
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
/// a / b rounded up without a division, for a >= 0 and b a power of two.
inline int64_t ceil_div_by_power(int64_t a, int64_t b) {
  return (a + b - 1) >> std::countr_zero(static_cast<uint64_t>(b));
}
/// The smallest multiple of b that is not below a, for a >= 0 and b > 0.
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
template <std::unsigned_integral T>
T round_up(T a, std::type_identity_t<T> b) {
  return (a + b - 1) / b * b;
}

}  // namespace smelt
