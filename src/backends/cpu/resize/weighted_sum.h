#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// to[j] = sum over t < taps of weight[t] * from[index[t] * n + j], j < n; taps > 0.
using WeightedSum = void (*)(const float* from, const int64_t* index, const float* weight, int64_t taps, int64_t n,
                             float* to);
WeightedSum weighted_sum_of(Isa isa);

}  // namespace smelt
