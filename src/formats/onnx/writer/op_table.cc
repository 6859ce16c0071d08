#include <vector>

#include "formats/onnx/writer/op_writers.h"

namespace smelt::onnx {

std::span<const OpWriter* const> all_op_writers() {
  static const std::vector<const OpWriter*> all = [] {
    std::vector<const OpWriter*> list;
    for (const auto& table :
         {elementwise_writers(), quantization_writers(), nn_writers(), matmul_writers(), shape_writers(),
          slice_writers(), gather_writers(), norm_writers(), reduce_writers(), resize_writers(), recurrent_writers(),
          attention_writers(), control_writers(), detection_writers(), misc_writers()})
      for (const OpWriter& w : table) list.push_back(&w);
    return list;
  }();
  return all;
}

const OpWriter* find_op_writer(Op op) {
  static const std::vector<const OpWriter*> by_op = [] {
    std::vector<const OpWriter*> list(static_cast<size_t>(Op::kCount), nullptr);
    for (const OpWriter* w : all_op_writers()) list[static_cast<size_t>(w->op)] = w;
    return list;
  }();
  return by_op[static_cast<size_t>(op)];
}

}  // namespace smelt::onnx
