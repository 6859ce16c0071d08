#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "ops/common/requantize_params.h"

namespace smelt {

/// y = floor((a * u + b * v + c) / 2^(15 + shift)) of bytes u and v, where a, b and c are whole numbers: by products of
/// pairs of int16s and sums of int32. The low 15 bits of a, b and c are summed apart:
///   t = high . (u, v) + high_constant + ((low . (u, v) + low_constant) >> 15),  y = t >> shift.
struct ByteSum {
  static constexpr int kLowBits = 15;
  int32_t high = 0, low = 0;  ///< factors of u and v: that of v in the upper half
  int32_t high_constant = 0, low_constant = 0;
  int shift = 0;
  int32_t doubtful = 0;  ///< y is a guess where t has none of these bits; 0: nowhere

  /// nullopt: numbers too large. bits: 15 + shift.
  static std::optional<ByteSum> exact(int64_t a, int64_t b, int64_t c, int bits);
  /// y is the nearest integer to what is no further than `error` from a * u + b * v + c. nullopt: factors too large, or
  /// too many guesses.
  static std::optional<ByteSum> near(double a, double b, double c, double error);
  /// near() without guesses: right where every pair of bytes turns out so.
  static std::optional<ByteSum> nearest(double a, double b, double c);
};

/// The values of u with which a v may make `sum`, one with guesses, a guess; others are not left out for certain.
/// search: least_numbers() or a faster one.
std::vector<uint8_t> lines_with_guesses(const ByteSum& sum, LeastNumbers search);

/// True if nearest() makes the bytes of near(), of the same a, b and c, of every pair: row(u, v, n, y) of n bytes each
/// by near() and other() by nearest(), where u ^ flip counts as u. Both are equal where near() does not guess.
template <class Row, class OtherRow>
bool same_of_every_pair(const ByteSum& near, LeastNumbers search, uint8_t flip, const Row& row, const OtherRow& other) {
  constexpr int64_t kLine = 256;
  uint8_t u[kLine], v[kLine], y[kLine], z[kLine];
  for (int64_t i = 0; i < kLine; ++i) v[i] = static_cast<uint8_t>(i);
  for (const uint8_t line : lines_with_guesses(near, search)) {
    std::memset(u, line ^ flip, kLine);
    row(u, v, kLine, y);
    other(u, v, kLine, z);
    if (std::memcmp(y, z, kLine) != 0) return false;
  }
  return true;
}

}  // namespace smelt
