#include "backends/vulkan/gemm/cooperative_matrix.h"

#include "backends/vulkan/gemm/packed.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_conv_cooperative_matrix(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  return attrs.hybrid ? nullptr : cooperative_matrix_kernel(spec, conv_2d_shape(spec), attrs.act);
}

}  // namespace smelt::vulkan
