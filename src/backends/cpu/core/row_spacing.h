#pragma once

#include <cstdint>

namespace smelt {

/// Rows that lie a multiple of 4096 bytes apart meet in one set of the level-1 cache, which holds 8 or 12 lines: those
/// of a tile of 14 rows, which are read side by side, drive each other out.
constexpr bool rows_collide(int64_t bytes) { return bytes % 4096 == 0; }

/// True if rows of a product's left operand, so many bytes apart, collide, and many tiles read them: copying pays.
constexpr bool pays_to_space(int64_t bytes, int64_t rows, int64_t panels) {
  constexpr int64_t kFewRows = 4, kFewPanels = 4;
  return rows_collide(bytes) && rows > kFewRows && panels >= kFewPanels;
}

/// True if dozens of rows so many bytes apart meet in so few sets that the cache does not hold a line of each.
constexpr bool many_rows_collide(int64_t bytes) {
  constexpr int64_t kFewSets = 1024, kNear = 16;
  return (bytes + kNear) % kFewSets <= 2 * kNear;
}

/// From a row of `length` elements of type T to the next one: a cache line of 64 bytes more where rows without a gap
/// would collide.
template <class T>
constexpr int64_t apart(int64_t length) {
  constexpr int64_t kSize = sizeof(T);
  return rows_collide(length * kSize) ? length + 64 / kSize : length;
}

}  // namespace smelt
