#pragma once

#include <cstddef>

#include "backends/cpu/core/isa.h"

namespace smelt::bench {

// What one core of this machine reaches in a loop of nothing else: the fastest of some repetitions, measured at the
// first call.

/// 1e9 multiplications and additions of float32 a second with the vectors of a level.
double peak_f32(Isa isa);
/// 1e9 multiplications and additions of int8 a second by integer dot products, or by tiles of AMX; 0: the level is not
/// x86 with VNNI.
double peak_i8(Isa isa);
/// 1e9 bytes a second that are read again and again from memory of that size.
double read_bandwidth(size_t bytes);

}  // namespace smelt::bench
