#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/checked.h"

namespace smelt {

/// What tiles keep in the processor between calls, and what they bring nearer: one for a run of tiles on one thread.
struct TileState {
  TileState() = default;
  TileState(const TileState&) = delete;
  TileState& operator=(const TileState&) = delete;
  ~TileState() {
    if (release) release();
  }
  /// Says which bytes the tiles of the coming steps bring into the second cache, an even share each. Tiles of AMX do.
  void bring(const void* from, int64_t bytes, int64_t steps_to_come) {
    ahead = static_cast<const char*>(from);
    ahead_end = ahead + bytes;
    ahead_a_step = bytes > 0 ? ceil_div(bytes, std::max<int64_t>(1, steps_to_come)) : 0;
  }

  ptrdiff_t rows = 0, steps = 0;  ///< of the tile that the processor was prepared for
  ptrdiff_t product_steps = 0;    ///< what one instruction takes of those steps
  void (*release)() = nullptr;    ///< null: nothing is kept
  const char *ahead = nullptr, *ahead_end = nullptr;
  ptrdiff_t ahead_a_step = 0;
};

}  // namespace smelt
