#pragma once

#include <span>

#include "runtime/planned_environment.h"

namespace smelt {

/// True if a plan that ran for inputs `before` is unlikely to be asked for again once there are inputs `now`: some
/// dimensions grow, as those of caches do, and none shrinks.
bool grows(std::span<const ValueType> before, std::span<const ValueType> now);

/// Bytes to leave behind a value of a new plan that was a little smaller in the plan before and may grow again.
/// `before`: of the graph as the module has it; null: there is none.
size_t bytes_to_grow(const Plan* before, ValueId id, const ValueType& now);

/// Makes of a plan of GraphRole::kEntry, which does not run now, one for inputs of these types: what differs is planned
/// anew, in the memory that the plan has for it. This takes the time of the nodes that differ alone. For plans on the
/// host, of shapes that don't follow from contents of inputs.
PlanUpdate update_plan(PlannedEnvironment& env, Plan& plan, std::span<const ValueType> inputs);

/// The segment in the host's memory that runs a node of the plan's graph, `index` of its nodes, and nothing else; null:
/// there is none.
const SegmentStep* own_segment(const Plan& plan, const Node& node, size_t index);

}  // namespace smelt
