#pragma once

#include <cstdint>
#include <optional>

#include "backends/cpu/core/kernel.h"
#include "ops/common/requantize_params.h"

namespace smelt {

/// Rescales `rows` rows of n accumulators, `stride` apart; the first is channel `channel`. Whole vectors are read: up
/// to 64 bytes behind the last sum must be readable.
using RequantizeAccumulators = void (*)(const RequantizeParams& r, const int32_t* acc, int64_t stride, int64_t rows,
                                        int64_t n, int64_t channel, uint8_t* out, int64_t out_stride);
/// least_numbers() by the vectors of a level.
LeastNumbers least_numbers_for(Isa isa);
/// RequantizeParams::make() by the vectors of the level, without what requantize_accumulators() does not use.
std::optional<RequantizeParams> requantize_params(const KernelSpec& spec, int64_t channels, const RescaleRule& rule);

/// For `r` and what has the same rounding, type, range and steps.
RequantizeAccumulators requantize_accumulators(Isa isa, const RequantizeParams& r);

}  // namespace smelt
