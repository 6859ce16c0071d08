#include "backends/cpu/attention/row_attention.h"

#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/attention/row_attention.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = HWY_MAX_BYTES / 4;
constexpr int kHeads = 2;  ///< of a tile, at most

/// The sum of a vector's blocks of four lanes.
template <class Tag, class W>
HWY_INLINE auto sum_of_blocks(Tag d, W v) {
  if constexpr (hn::MaxLanes(d) > 4) {
    const hn::Half<Tag> half;
    return sum_of_blocks(half, hn::Add(hn::LowerHalf(half, v), hn::UpperHalf(half, v)));
  } else {
    return v;
  }
}

/// The sums of four vectors.
HWY_INLINE auto sums_of_lanes(V a, V b, V c, V e) {
  const D d;
  const hn::RepartitionToWide<D> wide;
  // By blocks of four lanes: a0 + a2, b0 + b2, a1 + a3, b1 + b3.
  const V ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const V ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto ab2 = hn::BitCast(wide, ab), ce2 = hn::BitCast(wide, ce);
  const V low = hn::BitCast(d, hn::InterleaveLower(wide, ab2, ce2));
  const V high = hn::BitCast(d, hn::InterleaveUpper(wide, ab2, ce2));
  return sum_of_blocks(d, hn::Add(low, high));
}

/// Scores of H heads for K keys: 4 or 1.
template <int H, int K>
HWY_INLINE void score_tile(const float* q, const float* keys, int64_t step, int64_t depth, float scale, float* scores,
                           int64_t score_step) {
  const D d;
  V sums[H][K];
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
    for (int j = 0; j < K; ++j) sums[h][j] = hn::Zero(d);
  int64_t i = 0;
  for (; i + kLanes <= depth; i += kLanes) {
    V k[K];
#pragma GCC unroll 4
    for (int j = 0; j < K; ++j) k[j] = hn::LoadU(d, keys + j * step + i);
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      const V x = hn::LoadU(d, q + h * depth + i);
#pragma GCC unroll 4
      for (int j = 0; j < K; ++j) sums[h][j] = hn::MulAdd(x, k[j], sums[h][j]);
    }
  }
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h) {
    float out[K];
    if constexpr (K == 4) {
      const hn::CappedTag<float, 4> four;
      hn::StoreU(sums_of_lanes(sums[h][0], sums[h][1], sums[h][2], sums[h][3]), four, out);
    } else {
      out[0] = hn::GetLane(hn::SumOfLanes(d, sums[h][0]));
    }
    for (int j = 0; j < K; ++j) {
      float sum = out[j];
      for (int64_t at = i; at < depth; ++at) sum += q[h * depth + at] * keys[j * step + at];
      scores[h * score_step + j] = scale * sum;
    }
  }
}

template <int H>
void score_heads(const float* q, const RowAttention::Rows& keys, float scale, float* scores, int64_t score_step) {
  int64_t j = 0;
  const float* at = keys.at;
  if constexpr (kLanes >= 4)
    for (; j + 4 <= keys.n; j += 4, at += 4 * keys.step)
      score_tile<H, 4>(q, at, keys.step, keys.depth, scale, scores + j, score_step);
  for (; j < keys.n; ++j, at += keys.step)
    score_tile<H, 1>(q, at, keys.step, keys.depth, scale, scores + j, score_step);
}

/// C vectors of the results of H heads.
template <int H, int C>
HWY_INLINE void weigh_tile(const float* weights, int64_t weight_step, const RowAttention::Rows& values, int64_t first,
                           float* y) {
  const D d;
  V sums[H][C];
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sums[h][c] = hn::Zero(d);
  const float* at = values.at + first;
  for (int64_t j = 0; j < values.n; ++j, at += values.step) {
    V v[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) v[c] = hn::LoadU(d, at + c * kLanes);
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      const V w = hn::Set(d, weights[h * weight_step + j]);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sums[h][c] = hn::MulAdd(w, v[c], sums[h][c]);
    }
  }
#pragma GCC unroll 4
  for (int h = 0; h < H; ++h)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) hn::StoreU(sums[h][c], d, y + h * values.depth + first + c * kLanes);
}

template <int H>
void weigh_heads(const float* weights, int64_t weight_step, const RowAttention::Rows& values, float* y) {
  int64_t i = 0;
  for (; i + 4 * kLanes <= values.depth; i += 4 * kLanes) weigh_tile<H, 4>(weights, weight_step, values, i, y);
  for (; i + kLanes <= values.depth; i += kLanes) weigh_tile<H, 1>(weights, weight_step, values, i, y);
  for (; i < values.depth; ++i)
    for (int h = 0; h < H; ++h) {
      float sum = 0;
      for (int64_t j = 0; j < values.n; ++j) sum += weights[h * weight_step + j] * values.at[j * values.step + i];
      y[h * values.depth + i] = sum;
    }
}

/// Calls f(heads as an integral constant, the first of them) for all heads.
template <class F>
HWY_INLINE void each_heads(int64_t heads, F&& f) {
  int64_t h = 0;
  for (; h + kHeads <= heads; h += kHeads) f(std::integral_constant<int, kHeads>(), h);
  if (h < heads) f(std::integral_constant<int, 1>(), h);
}

void attention_scores(const float* q, int64_t heads, const RowAttention::Rows& keys, float scale, float* to,
                      int64_t score_step) {
  each_heads(heads, [&](auto count, int64_t h) {
    score_heads<decltype(count)::value>(q + h * keys.depth, keys, scale, to + h * score_step, score_step);
  });
}

void weigh_values(const float* weights, int64_t weight_step, int64_t heads, const RowAttention::Rows& values,
                  float* y) {
  each_heads(heads, [&](auto count, int64_t h) {
    weigh_heads<decltype(count)::value>(weights + h * weight_step, weight_step, values, y + h * values.depth);
  });
}

void rotary_embedding(const float* x, const float* cos, const float* sin, int64_t half, float* y) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const V u = hn::LoadU(d, x + i), v = hn::LoadU(d, x + half + i);
    const V c = hn::LoadU(d, cos + i), s = hn::LoadU(d, sin + i);
    hn::StoreU(hn::Sub(hn::Mul(u, c), hn::Mul(v, s)), d, y + i);
    hn::StoreU(hn::Add(hn::Mul(u, s), hn::Mul(v, c)), d, y + half + i);
  }
  for (; i < half; ++i) {
    const float u = x[i], v = x[half + i];
    y[i] = u * cos[i] - v * sin[i];
    y[half + i] = u * sin[i] + v * cos[i];
  }
}

RowAttention make_row_attention() { return {attention_scores, weigh_values, rotary_embedding}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const RowAttention& row_attention(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_row_attention)(); });
}

void rotate_row(const RowAttention& ops, bool interleaved, const float* x, const float* cos, const float* sin,
                int64_t half, float* y) {
  if (!interleaved) return ops.rotate(x, cos, sin, half, y);
  for (int64_t j = 0; j < half; ++j) {
    const float u = x[2 * j], v = x[2 * j + 1];
    y[2 * j] = u * cos[j] - v * sin[j];
    y[2 * j + 1] = u * sin[j] + v * cos[j];
  }
}

}  // namespace smelt
#endif
