#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

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

/// True if both functions make the same bytes of every pair: row(u, v, n, y) of n bytes each.
template <class Row, class OtherRow>
bool same_of_every_pair(const Row& row, const OtherRow& other) {
  constexpr int64_t kLine = 256, kLines = 8, kBytes = kLine * kLines;
  uint8_t u[kBytes], v[kBytes], y[kBytes], z[kBytes];
  for (int64_t i = 0; i < kBytes; ++i) v[i] = static_cast<uint8_t>(i);
  for (int64_t line = 0; line < kLine; ++line) {
    std::memset(u + line % kLines * kLine, static_cast<int>(line), kLine);
    if (line % kLines + 1 < kLines) continue;
    row(u, v, kBytes, y);
    other(u, v, kBytes, z);
    if (std::memcmp(y, z, kBytes) != 0) return false;
  }
  return true;
}

}  // namespace smelt
