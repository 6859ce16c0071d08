#pragma once

#include <algorithm>
#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// True where prefetches bring memory that is read once, in order, sooner than the processor does by itself. Not on
/// Zen 4, whose level-1 cache has 32 KiB: beyond the level-2 cache it reads 95 GB/s alone, 71 with prefetches. Zen 5
/// reads 109 and 126.
inline bool streams_by_prefetch() { return level1_cache_bytes() != 32768; }

/// Asks for n bytes, the next row, while those before it are worked on. They come from an outer cache, as what the last
/// node made.
inline void prefetch_row(const void* from, int64_t n) {
  constexpr int64_t kLine = 64, kMost = 64 * 1024;  // more would drive out what is read meanwhile
  for (int64_t i = 0; i < std::min(n, kMost); i += kLine) __builtin_prefetch(static_cast<const char*>(from) + i, 0, 2);
}

}  // namespace smelt
