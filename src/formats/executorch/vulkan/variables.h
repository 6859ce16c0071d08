#pragma once

#include <cstdint>
#include <vector>

#include "formats/executorch/vulkan/graph.h"

namespace smelt::executorch {

/// A program's mutable buffers inside a Vulkan graph are constants to read and leading outputs without an argument of
/// the call; the file does not say which belong together. Each of the first `count` outputs is paired with the constant
/// of its shape from which the fewest operators lead to it.
/// Returns the constants' values, by output.
Result<std::vector<uint32_t>> match_variables(const VkGraphView& graph, size_t count);

}  // namespace smelt::executorch
