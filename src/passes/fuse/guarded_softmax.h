#pragma once

#include <vector>

#include "graph/graph.h"

namespace smelt {

/// What a guard of softmax was, as torch's attention has it: where(not any(x != -inf), 0, softmax(x)).
struct GuardedSoftmax {
  ValueId result;
  ValueId zeros;
};

/// True if there are guarded softmaxes over rows.
bool has_guarded_softmax(Graph& graph);
/// Makes guarded softmaxes over rows plain ones, whose results are NaN where all of a row is -inf, but those whose
/// results are in `kept`.
std::vector<GuardedSoftmax> drop_softmax_guards(Graph& graph, const std::vector<ValueId>& kept);

}  // namespace smelt
