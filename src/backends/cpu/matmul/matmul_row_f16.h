#pragma once

#include <cstdint>
#include <memory>

#include "backends/cpu/core/kernel.h"
#include "ops/common/enums.h"

namespace smelt {

/// The product of one row of k float32 values (input 0) and a constant of n columns (input 1), each k elements of its
/// storage, plus a constant row (input 2, if there is one). Weights that the model has in float16 are read as they lie
/// in its file, which takes half the memory of a packed form. Returns nullptr where they are others.
[[gnu::cold]] std::unique_ptr<Kernel> make_row_times_f16(const KernelSpec& spec, int64_t k, int64_t n,
                                                         const Activation& act);

}  // namespace smelt
