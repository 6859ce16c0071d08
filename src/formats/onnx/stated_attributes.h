#pragma once

#include "formats/common/file_attributes.h"
#include "formats/onnx/lower.h"

namespace smelt::onnx {

/// The attributes that a node states; in a function's body, those that the call gives in their place. Tensors and
/// types are texts like "float32[2,3]", graphs their name and number of nodes.
StatedAttributes stated_attributes(const NodeContext& context, const NodeProto& node);

}  // namespace smelt::onnx
