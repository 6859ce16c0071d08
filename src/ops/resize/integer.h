#pragma once

#include "ops/core/op.h"
#include "ops/resize/plan.h"

namespace smelt {

/// Bilinear resampling of quantized images in TFLite's integer arithmetic: two axes, equal grids of input and output.
bool resizes_in_integers(const ResizeAttrs& a, DType x, DType y, const std::vector<ResizeAxis>& axes);
/// On one axis the two neighbours of output index i and the distance from the lower one: in fixed point for signed
/// types, else real.
struct ResizeNeighbours {
  int64_t lower, upper;
  int64_t fixed;  ///< in units of 2^-10
  float real;
};
ResizeNeighbours resize_neighbours(const ResizeAttrs& a, const ResizeAxis& d, int64_t i, bool fixed);
Status resize_in_integers(KernelContext& ctx, const ResizeAttrs& a, const std::vector<ResizeAxis>& axes);

}  // namespace smelt
