#include "formats/onnx/ops.h"

namespace smelt::onnx {

std::span<const OpEntry> ml_ops() { return {}; }

}  // namespace smelt::onnx
