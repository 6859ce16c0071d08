#pragma once

#include <algorithm>
#include <cstdint>

#include "base/thread_pool.h"

namespace smelt {

/// Shares work units among at most `threads` threads: body(first, last, slot) for the units [first, last) of each slot
/// below `threads`.
template <class F>
void ranges_in_slots(ThreadPool& pool, int64_t threads, int64_t units, F&& body) {
  const int64_t slots = std::min(threads, units);
  pool.parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot) body(units * slot / slots, units * (slot + 1) / slots, slot);
  });
}

/// As ranges_in_slots(), one unit at a time: body(unit, slot) in each slot below `threads`.
template <class F>
void in_slots(ThreadPool& pool, int64_t threads, int64_t units, F&& body) {
  ranges_in_slots(pool, threads, units, [&](int64_t first, int64_t last, int64_t slot) {
    for (int64_t unit = first; unit < last; ++unit) body(unit, slot);
  });
}

}  // namespace smelt
