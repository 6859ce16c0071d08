#include "formats/onnx/ops.h"

namespace smelt::onnx {

std::span<const OpEntry> training_ops() { return {}; }

}  // namespace smelt::onnx
