#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// y[i] = table[x[i]] for i < n.
using LookUpBytes = void (*)(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* y);
LookUpBytes byte_lookup(Isa isa);

}  // namespace smelt
