#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Attention of heads with one query each to keys and values that they share, which stay where they lie.
struct RowAttention {
  /// scores[h * score_step + j] = scale * sum over i < depth of q[h * depth + i] * keys[j * depth + i], for n keys.
  void (*scores)(const float* q, int64_t heads, const float* keys, int64_t n, int64_t depth, float scale, float* scores,
                 int64_t score_step);
  /// y[h * depth + i] = sum over j < n of weights[h * weight_step + j] * values[j * depth + i].
  void (*weigh)(const float* weights, int64_t weight_step, int64_t heads, const float* values, int64_t n, int64_t depth,
                float* y);
  /// y[i] = x[i] * cos[i] - x[half + i] * sin[i] and y[half + i] = x[i] * sin[i] + x[half + i] * cos[i], i < half.
  void (*rotate)(const float* x, const float* cos, const float* sin, int64_t half, float* y);
};
const RowAttention& row_attention(Isa isa);

}  // namespace smelt
