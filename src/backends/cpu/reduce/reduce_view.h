#pragma once

#include <cstdint>
#include <optional>

#include "ops/common/index.h"
#include "ops/core/node_spec.h"
#include "ops/reduce/reduce.h"

namespace smelt {

/// The input of a Reduce node as [outer, count, inner]; its output is [outer, inner].
struct ReduceView {
  int64_t outer = 1, count = 1, inner = 1;
};

/// nullopt: the axes are dynamic, or the reduced dimensions are not neighbours.
std::optional<ReduceView> reduce_view(const NodeSpec& spec);

/// The operands of a Cumulative node with a constant axis that sums numbers; nullopt for others, and if there are none.
std::optional<AxisView> cumulative_sum_view(const NodeSpec& spec);

}  // namespace smelt
