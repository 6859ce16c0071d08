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
};
Result<RotaryGeometry> rotary_geometry(const RotaryAttrs& a, const Shape& x);

/// Row of the cosine and sine tables, which have `rows`, for position i of sequence b.
Result<int64_t> rotary_row(KernelContext& ctx, const RotaryGeometry& g, int64_t rows, int64_t b, int64_t i);

}  // namespace smelt
