#pragma once

#include <span>
#include <vector>

#include "backends/backend.h"
#include "graph/graph.h"

namespace smelt {

/// One node as a graph is partitioned between the host and a back-end with memory of its own.
struct PartitionNode {
  const Node* node = nullptr;
  bool device = false;  ///< in: the back-end supports it; out: it shall run there
  bool alias = false;   ///< costs nothing and stays where its input is
  double work = 0;      ///< element operations, roughly
};

/// An order of the nodes in which device work comes in as few partitions as possible. Data dependences hold; a node
/// with effects stays behind everything that stood before it. Device nodes between host nodes on both sides whose work
/// is less than cost.min_island_work are given to the host (`device` = false). Returns indices into `nodes`.
std::vector<int> partition(const Graph& graph, std::vector<PartitionNode>& nodes, const PartitionCost& cost);

/// The maximal ranges of planned nodes of Placement::kHere between which nothing runs elsewhere.
std::vector<NodeRange> find_partitions(std::span<const PlannedNode> nodes);

/// The variable that a node reads or writes; -1: none.
int state_of(const Node& node);

/// True, by variable of the module, where only device nodes touch it and the back-end holds it: it stays on the device
/// from run to run. Each is written once at most, after all reads, by a value that the device makes. `types`: of the
/// graph's values.
std::vector<bool> resident_states(const Module& module, const Graph& graph, std::span<const PartitionNode> nodes,
                                  const std::function<const ValueType&(ValueId)>& types, const BackendSession& device);

}  // namespace smelt
