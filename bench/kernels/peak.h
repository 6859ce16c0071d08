#pragma once

#include <cstddef>
#include <functional>

#include "backends/cpu/core/isa.h"

namespace smelt::bench {

/// How memory is read.
struct Reading {
  size_t ahead;   ///< floats by which it is asked for before it is read; 0: it is not
  size_t places;  ///< parts of memory that are read side by side, 1 or 4
};

// What one core of this machine reaches in a loop of nothing else: the fastest of some repetitions, measured at the
// first call.

/// 1e9 multiplications and additions of float32 a second with the vectors of a level.
double peak_f32(Isa isa);
/// 1e9 multiplications and additions of int8 a second by integer dot products, or by tiles of AMX; 0: the level is not
/// x86 with VNNI.
double peak_i8(Isa isa);
/// Seconds that reading `blocks` blocks of `bytes` bytes each takes, in memory like that of packed weights, over those
/// that work() takes. The two take turns, and the fastest of each counts, so that both meet the same neighbours.
double share_of_bandwidth(size_t blocks, size_t bytes, const std::function<void()>& work);

}  // namespace smelt::bench
