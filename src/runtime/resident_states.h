#pragma once

#include <span>
#include <vector>

#include "runtime/constant_propagation.h"
#include "runtime/partition.h"

namespace smelt {

/// The variable that a node reads or writes; -1: none.
int state_of(const Node& node);

/// Which of the module's variables only device nodes touch: they stay on the device from run to run. Each is written
/// once at most, after all reads, by a value that the device makes.
std::vector<bool> resident_states(const Module& module, const Graph& graph, std::span<const SplitNode> nodes,
                                  const KnownValues& known, const vulkan::Device& device);

}  // namespace smelt
