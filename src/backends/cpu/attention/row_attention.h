#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// Attention of heads with one query each to keys and values that they share, which stay where they lie.
struct RowAttention {
  /// Keys or values: `n` rows of `depth` entries, `step` floats from one to the next.
  struct Rows {
    const float* at;
    int64_t step, n, depth;
  };
  /// scores[h * score_step + j] = scale * sum over i < depth of q[h * depth + i] * keys[j, i].
  void (*scores)(const float* q, int64_t heads, const Rows& keys, float scale, float* scores, int64_t score_step);
  /// y[h * depth + i] = sum over j < n of weights[h * weight_step + j] * values[j, i].
  void (*weigh)(const float* weights, int64_t weight_step, int64_t heads, const Rows& values, float* y);
  /// y[i] = x[i] * cos[i] - x[half + i] * sin[i] and y[half + i] = x[i] * sin[i] + x[half + i] * cos[i], i < half.
  void (*rotate)(const float* x, const float* cos, const float* sin, int64_t half, float* y);
};
const RowAttention& row_attention(Isa isa);

/// As rotate(); interleaved: of neighbours x[2 * i] and x[2 * i + 1].
void rotate_row(const RowAttention& ops, bool interleaved, const float* x, const float* cos, const float* sin,
                int64_t half, float* y);

}  // namespace smelt
