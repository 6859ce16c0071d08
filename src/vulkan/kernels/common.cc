#include "vulkan/kernels/common.h"

namespace smelt::vulkan {

bool plain_reals(const KernelSpec& spec, std::initializer_list<size_t> inputs, std::initializer_list<size_t> outputs) {
  const DType dtype = spec.outputs[*outputs.begin()].dtype;
  if (dtype != DType::kF32 && dtype != DType::kF16) return false;
  for (size_t i : inputs)
    if (!spec.has(i) || spec.inputs[i].dtype != dtype || spec.inputs[i].quant) return false;
  for (size_t i : outputs)
    if (spec.outputs[i].dtype != dtype || spec.outputs[i].quant) return false;
  return true;
}

}  // namespace smelt::vulkan
