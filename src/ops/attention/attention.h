#pragma once

#include <span>

#include "graph/graph.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

class KernelContext;

/// Where the rows of a run lie in a cache of GroupQueryAttention.
struct FreshRows {
  int64_t length;    ///< positions, theirs included
  int64_t position;  ///< of the first one
  int64_t row;       ///< of the cache that it gets before the oldest rows leave
  int64_t dropped;   ///< rows that leave then
};

/// Scaled dot-product attention. q [B, Hq, S, D], k [B, Hkv, T, D], v [B, Hkv, T, Dv] (heads_first), or [B, S, H*D]
/// with num_heads / kv_heads given. Hq is a multiple of Hkv (grouped queries).
struct AttentionAttrs : Attrs {
  int64_t num_heads = 0, kv_heads = 0;  ///< 0: 4-D operands
  double scale = 0;                     ///< 0: 1 / sqrt(D)
  bool causal = false;
  /// Position of query row i: P + i if true, i if false. P is the number of past keys; keys - S, at least 0, without
  /// past keys; valid keys - S with kv_lengths. A causal row sees the keys up to its position.
  bool causal_from_end = false;
  double softcap = 0;         ///< 0: none; scores = softcap * tanh(scores / softcap)
  int64_t window = -1;        ///< keys further than this before a row's position are hidden; -1: none
  int64_t window_right = -1;  ///< keys further than this behind a row's position are hidden; -1: none
  DType softmax_dtype = DType::kInvalid;
  int64_t qk_output = 0;        ///< meaning of output 3: 0 raw q*k, 1 after softcap, 2 after mask, 3 after softmax
  bool smooth_softmax = false;  ///< one more logit of 0 in the denominator
  SMELT_FIELDS(num_heads, kv_heads, scale, causal, causal_from_end, softcap, window, window_right, softmax_dtype,
               qk_output, smooth_softmax)
  /// See OpInfo::multiply_adds.
  double multiply_adds(std::span<const ValueType> inputs, const ValueType& output) const;
};

struct RotaryAttrs : Attrs {
  bool interleaved = false;
  int64_t rotary_dim = 0;  ///< 0: the whole head
  int64_t num_heads = 0;   ///< of 3-D x [B, S, H*D]
  double scale = 1;
  bool batch_seq_heads = false;  ///< 4-D x is [B, S, H, D] (else [B, H, S, D])
  SMELT_FIELDS(interleaved, rotary_dim, num_heads, scale, batch_seq_heads)
};

struct KvAppendAttrs : Attrs {
  int64_t axis = 1;  ///< sequence axis of the cache
  SMELT_FIELDS(axis)
};

/// com.microsoft.GroupQueryAttention: q [B, S, Hq*D], k and v [B, S, Hkv*D] (or all packed in q) join caches that hold
/// kv_lengths[b] + 1 - S valid rows; rows at the end of the cache are not used.
///
/// With `window_cache` a cache has as many rows as go in, at least `window`, and holds the last ones of its
/// kv_lengths[b] + 1 - S positions, the oldest first: see rows_kept().
struct GroupQueryAttrs : Attrs {
  int64_t num_heads = 1, kv_heads = 1;
  double scale = 0;     ///< 0: 1 / sqrt(D)
  double softcap = 0;   ///< 0: none
  int64_t window = -1;  ///< -1: all
  bool rotary = false, interleaved = false;
  bool smooth_softmax = false;  ///< one more logit of 0 in the denominator, where no sinks are given
  bool causal = true;           ///< a row sees the keys up to its own; false: all valid keys
  /// Meaning of output 3 [B, Hq, S, T], T the total length: 1 scores before, 2 behind softmax; hidden keys give 0.
  int64_t qk_output = 0;
  bool window_cache = false;
  SMELT_FIELDS(num_heads, kv_heads, scale, softcap, window, rotary, interleaved, smooth_softmax, causal, qk_output,
               window_cache)
  /// Positions that a cache of `capacity` rows holds after `positions` of them: all, or without `window_cache`; behind
  /// `capacity` the oldest leave it, capacity - window + 1 at a time. Source: ONNX Runtime's GroupQueryAttention,
  /// sliding_window_cache.
  int64_t rows_kept(int64_t capacity, int64_t positions) const;
  /// Of batch entry b with `rows` rows, by the operator's inputs, whose values are not checked but bounded. A first
  /// prompt may be padded behind its end: its rows begin at 0.
  FreshRows fresh_rows(const KernelContext& ctx, int64_t b, int64_t rows, int64_t capacity) const;
};

/// ONNX LinearAttention: a recurrence over a state [B, Hkv, Dk, Dv].
struct LinearAttentionAttrs : Attrs {
  int64_t q_heads = 1, kv_heads = 1;
  double scale = 0;  ///< 0: 1 / sqrt(Dk)
  bool gated = false, delta = false;
  SMELT_FIELDS(q_heads, kv_heads, scale, gated, delta)
};

}  // namespace smelt
