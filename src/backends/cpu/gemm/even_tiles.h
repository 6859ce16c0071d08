#pragma once

#include <cstdint>

#include "base/checked.h"

namespace smelt {

/// Rows, at least one, in as few tiles of at most `most` rows as they fit, which are as high as each other, or one row
/// lower.
struct EvenTiles {
  int64_t count = 1, height = 0, higher = 0;  ///< the first `higher` tiles have a row more than `height`

  EvenTiles(int64_t rows, int64_t most) : height(rows) {
    if (rows <= most) return;  // without a division
    count = ceil_div(rows, most);
    height = rows / count;
    higher = rows - count * height;
  }
  int64_t rows(int64_t tile) const { return height + (tile < higher); }
};

}  // namespace smelt
