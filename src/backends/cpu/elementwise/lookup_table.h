#pragma once

#include <cstdint>

#include "backends/cpu/core/kernel.h"

namespace smelt {

/// y[i] = table[x[i]] for i < n.
using LookUp8 = void (*)(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* y);
LookUp8 lookup_8(Isa isa);

/// True if values of the type index a table of 256 entries: 8-bit integers or bool, unquantized or per tensor.
bool takes_lookup_table(const ValueType& t);

/// The node's results, by its reference kernel, for all values of its first input ([256]) or of its first two inputs
/// ([256, 256]). Later inputs are constants of the node. Null when the reference kernel fails.
Packed fill_lookup_table(const KernelSpec& spec, size_t inputs);

}  // namespace smelt
