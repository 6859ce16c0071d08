#pragma once

#include "backends/cpu/core/kernel.h"

namespace smelt {

/// For nodes with float16 or bfloat16 operands: the kernel of the list that runs the node in float32, between
/// conversions of the operands. Constants are converted once. `quantized_weights`: input 1 may also be a quantized
/// constant, which becomes float32. Returns nullptr where nothing is to be converted, or no kernel runs the node in
/// float32.
std::unique_ptr<Kernel> through_float32(const KernelSpec& spec, bool quantized_weights = false);

}  // namespace smelt
