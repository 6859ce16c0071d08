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

}  // namespace smelt
