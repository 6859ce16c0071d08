#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// y[c] = clamp(mean over t of taps[t][c]), rounded half away from zero, of bytes of one sign (is_signed: int8, else
/// uint8). 0 < count <= kMostTaps.
using IntegerMeans = void (*)(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, int lo, int hi,
                              uint8_t* y);
inline constexpr int64_t kMostTaps = 128;  ///< whose sums fit 16 bits
IntegerMeans integer_means(Isa isa);

}  // namespace smelt
