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

/// What a product of the pixels of a line of the image by the columns (tap of a line, filter) gave, and what is added.
template <class T>
struct TapColumns {
  const T* results;  ///< of pixel `first`
  int64_t stride;    ///< from a pixel's results to the next one's
  int64_t first;
  int64_t taps, dilation, pad, width;  ///< width: of the image; taps outside add nothing
  int64_t filters;
  const T* bias;  ///< one a filter, whole vectors of 4

  struct Range {
    int64_t begin, end;
  };
  /// The taps of output pixel x that lie in the image.
  Range inside(int64_t x) const {
    Range r{0, taps};
    while (r.begin < r.end && x - pad + r.begin * dilation < 0) ++r.begin;
    while (r.begin < r.end && x - pad + (r.end - 1) * dilation >= width) --r.end;
    return r;
  }
  /// The result of a tap that output pixel x adds, of filter f and those behind it. The next tap's is `step()` further.
  const T* result(int64_t x, int64_t tap, int64_t f) const {
    return results + (x - pad + tap * dilation - first) * stride + tap * filters + f;
  }
  int64_t step() const { return dilation * stride + filters; }
};

}  // namespace smelt::few_filters
