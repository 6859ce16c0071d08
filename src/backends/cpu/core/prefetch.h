#pragma once

#include <algorithm>
#include <cstdint>

namespace smelt {

/// Asks for n bytes, the next row, while those before it are worked on. They come from an outer cache, as what the last
/// node made.
inline void prefetch_row(const void* from, int64_t n) {
  constexpr int64_t kLine = 64, kMost = 64 * 1024;  // more would drive out what is read meanwhile
  for (int64_t i = 0; i < std::min(n, kMost); i += kLine) __builtin_prefetch(static_cast<const char*>(from) + i, 0, 2);
}

}  // namespace smelt
