#include "backends/vulkan/gemm/cooperative_matrix.h"

#include "backends/vulkan/gemm/packed.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_matmul_cooperative_matrix(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (attrs.alpha != 1 || (spec.has(2) && attrs.beta != 1)) return nullptr;
  return cooperative_matrix_kernel(spec, matmul_as_conv(spec, attrs), attrs.act);
}

}  // namespace smelt::vulkan
