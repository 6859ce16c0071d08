#pragma once

#include <vector>

#include "ops/core/op.h"

namespace smelt {

/// Runs the reference kernel of one node outside of any session, for tables that back-ends compute beforehand.
/// `outputs` have their types and are zeroed; undefined where nobody wants them. Operators that allocate their outputs
/// replace them. No control flow, no state.
Result<std::vector<Tensor>> run_reference(const Node& node, std::vector<Datum> inputs, std::vector<Tensor> outputs);

}  // namespace smelt
