// Networks of uint8 that TFLite has no int8 kernels for.
#include <algorithm>

#include "formats/tflite/writer/subgraph_writer.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/reduce/reduce.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

QuantPtr quant_of(const Value& v) { return v.type.quant || !v.constant ? v.type.quant : v.constant->quant(); }

bool is_byte(const Value& v) { return quant_of(v) && bit_width(v.type.dtype) <= 8; }

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
  bool shifted = false;
  for (const Graph& graph : module.graphs)
    for (const Node& node : graph.nodes) {
      bool bytes = false;
      for (const auto* list : {&node.inputs, &node.outputs})
        for (const ValueId id : *list) {
          if (id == kNoValue || !is_byte(graph.value(id))) continue;
          if (graph.value(id).type.dtype != DType::kU8 || !is_per_tensor(quant_of(graph.value(id)))) return false;
          bytes = true;
        }
      if (!bytes) continue;
      if (!has_uint8_kernel(node)) return false;
      if ((op_info(node.op).flags & kWeighted) == 0 || node.inputs.size() < 2) continue;
      const Value& weights = graph.value(node.inputs[1]);
      // int8 weights have no zero points.
      shifted |= weights.constant && is_byte(weights) && is_byte(graph.value(node.inputs[0])) &&
                 is_byte(graph.value(node.outputs[0])) && quant_of(weights)->zero_point() != 128;
    }
  return shifted;
}

}  // namespace smelt::tflite
