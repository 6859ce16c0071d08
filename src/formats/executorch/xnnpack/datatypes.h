#pragma once

#include "formats/executorch/xnnpack/graph.h"

namespace smelt::executorch {

/// Refuses a node whose values have data types that the operator is not defined for, naming the value and what would
/// do.
Status check_datatypes(const XnnGraph& graph, const fb_xnnpack::XNode& node);

}  // namespace smelt::executorch
