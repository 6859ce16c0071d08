#pragma once

#include <cstdint>

#include "base/checked.h"
#include "ops/conv/conv_shape.h"

/// Convolutions by so few filters that the taps of a line of the window become columns of one product.
namespace smelt::few_filters {

constexpr int64_t kMostFilters = 16;
constexpr int64_t kStretch = 512;   ///< output pixels whose columns stay in the level-2 cache
constexpr int64_t kMostLines = 32;  ///< of a window

/// False unless columns of all taps of a line fill vectors of `lanes` clearly better than the filters do.
inline bool pay_off(const ConvShape& g, int64_t lanes) {
  constexpr int64_t kShallow = 32, kShort = 8;
  if (!g.planar() || g.groups != 1 || g.stride[2] != 1 || g.kernel[2] < 2 || g.c_out > kMostFilters) return false;
  if (g.kernel[1] > kMostLines || g.kernel[1] * g.c_in < kShallow || g.in[2] < kShort || g.out[2] < kShort)
    return false;
  const auto vectors = [&](int64_t columns) { return ceil_div(columns, lanes); };
  return vectors(g.kernel[2] * g.c_out) * 3 * g.in[2] <= vectors(g.c_out) * g.kernel[2] * 2 * g.out[2];
}

}  // namespace smelt::few_filters
