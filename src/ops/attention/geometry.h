#pragma once

#include "ops/attention/attention.h"
#include "ops/core/op.h"
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

/// Strides of a mask that broadcasts to [batch, q_heads, rows, keys].
struct AttentionMask {
  int64_t strides[4] = {0, 0, 0, 0};
  int64_t keys = 0;  ///< keys behind these are masked
  int64_t row(int64_t b, int64_t h, int64_t i) const { return b * strides[0] + h * strides[1] + i * strides[2]; }
};
Result<AttentionMask> attention_mask(const AttentionGeometry& g, const Shape& mask);

/// Keys of one batch entry that count, and the position of its first query.
struct KeySpan {
  int64_t valid, offset;
};
/// Precondition: inputs 4 to 6 are those of Attention.
Result<KeySpan> key_span(KernelContext& ctx, const AttentionAttrs& a, const AttentionGeometry& g, int64_t b);

/// First and one past the last key that a query may see.
struct VisibleKeys {
  int64_t begin, end;
};
VisibleKeys visible_keys(const AttentionAttrs& a, int64_t position, int64_t valid);

}  // namespace smelt
