#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/checked.h"
#include "ops/conv/conv_shape.h"

namespace smelt {

/// Output pixels [begin, end) along dimension d that see tap k inside the image; none if end <= begin.
inline std::pair<int64_t, int64_t> seen(const ConvShape& g, int d, int64_t k) {
  const int64_t reach = k * g.dilation[d] - g.pad[d];
  const int64_t begin = reach >= 0 ? 0 : ceil_div(-reach, g.stride[d]);
  const int64_t end = g.in[d] <= reach ? 0 : ceil_div(g.in[d] - reach, g.stride[d]);
  return {std::min(begin, g.out[d]), std::clamp<int64_t>(end, 0, g.out[d])};
}

/// Taps [first, second) along dimension d of the window of output pixel o that lie on the image.
inline std::pair<int64_t, int64_t> taps_inside(const ConvShape& g, int d, int64_t o) {
  const int64_t start = o * g.stride[d] - g.pad[d], dilation = g.dilation[d];
  const auto before = [&](int64_t end) {
    const int64_t distance = std::max<int64_t>(end - start, 0);
    return dilation == 1 ? distance : ceil_div(distance, dilation);
  };
  const int64_t first = std::min(before(0), g.kernel[d]);
  return {first, std::clamp(before(g.in[d]), first, g.kernel[d])};
}

}  // namespace smelt
