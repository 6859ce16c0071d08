#pragma once

#include <cstdint>

#include "base/checked.h"

namespace smelt {

// Sizes of the parts of a workspace that lie one behind the other. A part starts at a multiple of 64 bytes and has 64
// bytes to spare behind it, because whole vectors are read and written there.

inline int64_t padded_bytes(int64_t bytes) { return round_up(bytes + 64, 64); }
inline int64_t padded_floats(int64_t floats) { return round_up(floats + 16, 16); }

}  // namespace smelt
