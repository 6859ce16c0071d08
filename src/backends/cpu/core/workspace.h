#pragma once

#include <cstdint>

#include "base/checked.h"

namespace smelt {

// Sizes of the parts of a workspace that lie one behind the other. A part starts at a multiple of 64 bytes and has 64
// bytes to spare behind it, because whole vectors are read and written there.

inline int64_t padded_bytes(int64_t bytes) { return round_up(bytes + 64, 64); }
inline int64_t padded_floats(int64_t floats) { return round_up(floats + 16, 16); }

/// Bytes from the workspace of a thread to that of the next one. Most kernels have the same, so that a thread finds its
/// workspace in its own caches, and not what another thread wrote there for the kernel before.
inline int64_t workspace_stride(int64_t bytes, int64_t threads) {
  constexpr int64_t kOfMost = 1 << 16;
  return threads > 1 ? round_up(bytes, kOfMost) : bytes;
}

}  // namespace smelt
