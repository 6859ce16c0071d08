#pragma once

#include <vector>

#include "ops/core/op.h"

namespace smelt {

/// Runs the reference kernel of one node outside of any session; back-ends build lookup tables with it. `outputs` are
/// zeroed tensors of the output types, undefined for absent outputs; kDynamic operators replace them. Control flow and
/// state are errors.
Result<std::vector<Tensor>> run_reference(const Node& node, std::vector<Datum> inputs, std::vector<Tensor> outputs);

}  // namespace smelt
