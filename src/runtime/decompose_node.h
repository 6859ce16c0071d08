#pragma once

#include <functional>
#include <vector>

#include "passes/passes.h"
#include "runtime/plan.h"

namespace smelt {

using Supports = std::function<bool(const NodeRequest&)>;

/// True if `supports` holds for every node of the decomposition of `node`. Views need no support.
bool all_run(const DecomposedNode& parts, const NodeRequest& node, const Supports& supports);
/// True if the parts that `supports` holds for go over all elements of the node, and what the reference kernels of the
/// others make is little beside it: then the decomposition pays.
bool most_run(const DecomposedNode& parts, const NodeRequest& node, const Supports& supports);

/// Adds the parts of `node`, a node of the module's graph `graph`, to what the plan owns: their values to
/// plan.decomposed, which becomes plan.graph, and them to plan.part_nodes. Returns them in their order.
std::vector<const Node*> splice(PlanParts& plan, const Graph& graph, const Node& node, const DecomposedNode& parts);

}  // namespace smelt
