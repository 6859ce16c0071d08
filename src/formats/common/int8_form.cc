#include "formats/common/int8_form.h"

#include <algorithm>
#include <memory>

#include "ops/core/op.h"
#include "tensor/quant_params.h"

namespace smelt::formats {
namespace {

QuantPtr quant_of(const Value& v) { return v.type.quant || !v.constant ? v.type.quant : v.constant->quant(); }

/// True if a value is none of 8 bits, or uint8 with one scale.
bool is_uint8_if_byte(const Value& v) {
  return !is_byte(v) || (v.type.dtype == DType::kU8 && is_per_tensor(quant_of(v)));
}

}  // namespace

QuantPtr shifted_quant(const QuantPtr& quant, int32_t by) {
  auto q = std::make_shared<Quantization>(*quant);
  if (q->zero_points.empty()) q->zero_points.assign(1, 0);
  for (int32_t& z : q->zero_points) z += by;
  return q;
}

Tensor int8_of_uint8(const Tensor& t) {
  Tensor out(DType::kI8, t.shape());
  const auto* from = t.data<uint8_t>();
  std::transform(from, from + t.elements(), out.data<int8_t>(),
                 [](uint8_t byte) { return static_cast<int8_t>(byte ^ 0x80); });
  return out;
}

bool is_byte(const Value& v) { return quant_of(v) && bit_width(v.type.dtype) <= 8; }

bool has_shifted_uint8_weights(const Module& module) {
  bool shifted = false;
  for (const Graph& graph : module.graphs)
    for (const Node& node : graph.nodes) {
      for (const auto* list : {&node.inputs, &node.outputs})
        for (const ValueId id : *list)
          if (id != kNoValue && !is_uint8_if_byte(graph.value(id))) return false;
      if ((op_info(node.op).flags & kWeighted) == 0 || node.inputs.size() < 2) continue;
      const Value& weights = graph.value(node.inputs[1]);
      shifted |= weights.constant && is_byte(weights) && is_byte(graph.value(node.inputs[0])) &&
                 is_byte(graph.value(node.outputs[0])) && quant_of(weights)->zero_point() != 128;
    }
  return shifted;
}

}  // namespace smelt::formats
