#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// y[i] = table[x[i]] for i < n.
using LookUp8 = void (*)(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* y);
LookUp8 lookup_8(Isa isa);

}  // namespace smelt
