// Networks of uint8 that TFLite has no int8 kernels for.
#include <algorithm>

#include "formats/common/int8_form.h"
#include "formats/tflite/writer/subgraph_writer.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce.h"

namespace smelt::tflite {
namespace {

/// True if LiteRT and its delegate have uint8 kernels for the operator.
bool has_uint8_kernel(const Node& node) {
  if (op_info(node.op).flags & kView) return true;
  switch (node.op) {
    case Op::kConv:
    case Op::kConvTranspose:
    case Op::kMatMul:
    case Op::kPool:
    case Op::kConcat:
    case Op::kPad:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kStridedSlice:
    case Op::kSplit:
    case Op::kResize:
    case Op::kSoftmax:
    case Op::kQuantize:
    case Op::kDequantize:
    case Op::kQuantizeLinear:
    case Op::kDequantizeLinear:
    case Op::kBitCast:
      return true;
    case Op::kBinary: {
      const Binary fn = static_cast<const BinaryAttrs&>(*node.attrs).fn;
      return fn == Binary::kAdd || fn == Binary::kSub || fn == Binary::kMul;
    }
    case Op::kReduce:
      return static_cast<const ReduceAttrs&>(*node.attrs).fn == Reduction::kMean;
    default:
      return false;
  }
}

}  // namespace

bool keeps_uint8(const Module& module) {
  const auto has_kernel = [](const Graph& graph, const Node& node) {
    const auto is_byte = [&](ValueId id) { return id != kNoValue && formats::is_byte(graph.value(id)); };
    return has_uint8_kernel(node) ||
           (std::ranges::none_of(node.inputs, is_byte) && std::ranges::none_of(node.outputs, is_byte));
  };
  for (const Graph& graph : module.graphs)
    if (!std::ranges::all_of(graph.nodes, [&](const Node& node) { return has_kernel(graph, node); })) return false;
  return formats::has_shifted_uint8_weights(module);
}

}  // namespace smelt::tflite
