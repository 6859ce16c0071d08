#pragma once

#include <cstddef>

#include "backends/cpu/core/kernel.h"
#include "base/recycled_memory.h"
#include "smelt/result.h"

namespace smelt {

/// True for a MatMul of one row by a large constant b whose columns lie one behind the other: each range of columns is
/// a product of its own.
bool has_column_ranges(const KernelSpec& spec);

/// Runs such a product once, a range of columns after the other, each by a kernel of its own. Its weights are packed
/// into `memory`, over those of the range before. Gives the same bits as the kernel of the whole product.
Status run_column_ranges(const KernelSpec& spec, RecycledMemory& memory, KernelContext& ctx);

}  // namespace smelt
