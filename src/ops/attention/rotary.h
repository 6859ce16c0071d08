#pragma once

#include "ops/attention/attention.h"
#include "ops/core/op.h"
#include "smelt/result.h"
#include "smelt/tensor.h"

namespace smelt {

struct RotaryGeometry {
  int64_t batch, heads, length, depth;
  int64_t rotary;                           ///< entries of a head that are rotated, its first
  int64_t batch_stride, head_stride, step;  ///< in elements
  /// Rows of the tables; without position ids, from that of a sequence to that of the next one, and of a position.
  int64_t rows, row_batch, row_step;
};
/// `cos`, `sin`: shapes of the tables. Those of four dimensions broadcast with x over sequences and positions; one of
/// their dimensions 1 and 2, that of the heads, is 1.
Result<RotaryGeometry> rotary_geometry(const RotaryAttrs& a, const Shape& x, const Shape& cos, const Shape& sin);

/// Row of the cosine and sine tables for position i of sequence b.
Result<int64_t> rotary_row(KernelContext& ctx, const RotaryGeometry& g, int64_t b, int64_t i);

}  // namespace smelt
