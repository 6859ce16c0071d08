#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace smelt {

/// Shares work units among at most `threads` threads: body(unit, slot), one unit at a time in each slot below
/// `threads`.
template <class F>
void in_slots(ThreadPool& pool, int64_t threads, int64_t units, F&& body) {
  const int64_t slots = std::min(threads, units);
  pool.parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      for (int64_t unit = units * slot / slots; unit < units * (slot + 1) / slots; ++unit) body(unit, slot);
  });
}

}  // namespace smelt
