#pragma once

#include "ops/attention/attention.h"
#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

/// Sizes of one attention; unknown ones are -1.
struct AttentionGeometry {
  bool flat_q = false, flat_k = false, flat_v = false;  ///< [B, S, H*D] instead of [B, H, S, D]
  int64_t batch = -1, q_heads = -1, kv_heads = -1;
  int64_t rows = -1;     ///< S, queries
  int64_t fresh = -1;    ///< keys of k itself
  int64_t past = 0;      ///< keys before them
  int64_t keys = -1;     ///< T, both together
  int64_t depth = -1;    ///< D
  int64_t v_depth = -1;  ///< Dv
  Shape output() const;
};

/// `past_k` is null when absent.
Result<AttentionGeometry> attention_geometry(const AttentionAttrs& a, const Shape& q, const Shape& k, const Shape& v,
                                             const Shape* past_k);

}  // namespace smelt
