#pragma once

#include "formats/common/writer.h"

namespace smelt::executorch {

/// Writes a module in which sizes that a run decides are bounds, as `.pte`. `wider` is that module for larger bounds:
/// what differs between the two has a size that the run decides.
Result<formats::WriteResult> write_with_bounds(const Module& module, const Module& wider,
                                               const formats::WriteOptions& options);

}  // namespace smelt::executorch
