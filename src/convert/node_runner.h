#pragma once

#include <memory>

#include "formats/common/writer.h"
#include "graph/graph.h"
#include "passes/passes.h"
#include "runtime/executor.h"

namespace smelt::convert {

/// Runs nodes of a module on the reference kernels, for a minute at most.
class NodeRunner {
 public:
  explicit NodeRunner(const Module& module);
  NodeRunner(const NodeRunner&) = delete;
  NodeRunner& operator=(const NodeRunner&) = delete;
  /// Refers to this object.
  const Evaluate& evaluate() const { return evaluate_; }

 private:
  SessionOptions options_;
  Executor executor_;
  Evaluate evaluate_;
};

/// Fixes what follows from constants and from the shapes of inputs: such shapes and the numbers computed from them
/// become constants. Branches with a constant condition and calls are opened, and loops whose number of iterations
/// follows from constants are unrolled. A loop that would give too many nodes stays. `spare`: sizes that a run decides
/// become as many more than the most that a run can give; -1: they stay open.
Status specialize(Module& module, const Evaluate& evaluate, int64_t spare = -1);

/// The part of specialize() that leaves branches, calls and loops as they are: shapes of values that are known become
/// constants, and so do the numbers computed from these and from other constants.
Status fold_shapes(Module& module, const Evaluate& evaluate);

/// Makes what a graph assigns to variables in the first run alone, as that of CALL_ONCE in TFLite does, their first
/// contents, if those are constants and the variables keep their shapes. Otherwise the module stays as it is.
void give_first_contents(Module& module);

/// Writes nodes that only move elements as one Gather by constant indices, where the writer has no form for them.
void move_by_indices(Module& module, const formats::Writer& writer, const formats::WriteOptions& options,
                     const Evaluate& evaluate);

}  // namespace smelt::convert
