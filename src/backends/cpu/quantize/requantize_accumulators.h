#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"
#include "ops/common/requantize_params.h"

namespace smelt {

/// Rescales `rows` rows of n accumulators, `stride` apart; the first is channel `channel`. Whole vectors are read: up
/// to 64 bytes behind the last sum must be readable.
using RequantizeAccumulators = void (*)(const RequantizeParams& r, const int32_t* acc, int64_t stride, int64_t rows,
                                        int64_t n, int64_t channel, uint8_t* out, int64_t out_stride);
/// For `r` and what has the same rounding, type, range and steps.
RequantizeAccumulators requantize_accumulators(Isa isa, const RequantizeParams& r);

}  // namespace smelt
