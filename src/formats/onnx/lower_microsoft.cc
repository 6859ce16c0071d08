#include "formats/onnx/ops.h"

namespace smelt::onnx {

std::span<const OpEntry> microsoft_ops() { return {}; }

}  // namespace smelt::onnx
namespace smelt::onnx {
std::span<const OpEntry> microsoft_quant_ops() { return {}; }
std::span<const OpEntry> microsoft_attention_ops() { return {}; }
}  // namespace smelt::onnx
