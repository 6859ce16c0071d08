#pragma once

#include <memory>
#include <vector>

#include "backends/vulkan/core/kernel.h"
#include "ops/core/decomposition.h"

namespace smelt::vulkan {

/// One kernel that runs the nodes of `parts`, each by a kernel of the list; its outputs are `results`. For what a
/// limit of the device divides. Views (Reshape and the like) cost nothing. Null unless parts.gives(results), or if a
/// node has no kernel.
std::unique_ptr<Kernel> decomposed_kernel(const KernelSpec& spec, const Decomposition& parts,
                                          const std::vector<ValueId>& results);

}  // namespace smelt::vulkan
