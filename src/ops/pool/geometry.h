#pragma once

#include "ops/common/window.h"
#include "ops/pool/pool.h"

namespace smelt {

/// Sizes of a sliding-window pooling. x has the window's dimensions, channels, and a batch dimension unless it is a
/// single channels-first image.
struct PoolGeometry {
  bool batched = true;
  int64_t batch = 1, channels = -1;
  Window window;
  Shape output;
};

Result<PoolGeometry> pool_geometry(const PoolAttrs& a, const Shape& x);

}  // namespace smelt
