#pragma once

#include "formats/executorch/xnnpack/graph.h"

namespace smelt::executorch {

/// Reads and checks one entry of the value list: type, shape, quantization, constant bytes.
Result<XnnValue> read_xnn_value(const fb_xnnpack::XNNGraph& table, const fb_xnnpack::XValue& entry,
                                const DelegateBlob& blob, const BlobParts& parts, CopyBudget& budget);

/// Element type that stores a value of the given XNNPACK type; kInvalid for unknown types.
DType storage_type(fb_xnnpack::XNNDatatype type);

}  // namespace smelt::executorch
