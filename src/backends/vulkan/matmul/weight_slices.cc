#include "backends/vulkan/gemm/weight_slices.h"

#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_shape.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_matmul_weight_slices(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (spec.inputs[1].shape.rank() != 2 || attrs.trans_batch_b) return nullptr;
  const auto shape = MatMulShape::make(spec);
  const int rank = spec.outputs[0].shape.rank();
  if (!shape || rank == 0 || spec.outputs[0].shape.back() != shape->n) return nullptr;
  return weight_slices(spec, {attrs.transpose_b ? 0 : 1, rank - 1, shape->n});
}

}  // namespace smelt::vulkan
