#pragma once

#include <span>

#include "backends/backend.h"
#include "backends/cpu/core/isa.h"
#include "graph/graph.h"

namespace smelt {

/// About how long one thread takes for a node, in nanoseconds. Every dimension is known.
double estimated_time(const Node& node, std::span<const ValueType> inputs, std::span<const ValueType> outputs, Isa isa);

/// The threads that share a node: one computes it where to share the work would take longer than the work.
/// spread: several threads made its inputs, so that each of their caches holds a part.
Sharing worthwhile_sharing(const Node& node, std::span<const ValueType> inputs, std::span<const ValueType> outputs,
                           Isa isa, bool spread = false);

}  // namespace smelt
