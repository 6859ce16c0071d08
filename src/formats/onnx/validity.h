#pragma once

#include "formats/format.h"
#include "formats/onnx/proto.h"

namespace smelt::onnx {

class NodeContext;

/// Rules of the specification that bind a model as a whole, whether or not an operator reads the field: versions, types
/// of inputs, attributes, functions. Errors are located.
Status check_model(const Source& source, const ModelProto& model);

/// A zero point has the element type of what it is the zero point of. Checks the operands whose types are known; call
/// it when the node is lowered.
Status check_zero_points(const Source& source, NodeContext& node);

}  // namespace smelt::onnx
