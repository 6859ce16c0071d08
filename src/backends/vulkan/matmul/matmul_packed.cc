#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/packed_kernel.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_matmul_packed_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = attrs.alpha == 1 && attrs.beta == 1 ? matmul_as_conv(spec, attrs) : std::nullopt;
  const int o_axis = attrs.transpose_b ? 0 : 1;
  return s ? packed_kernel_f32(spec, *s, attrs.act, o_axis, 1 - o_axis) : nullptr;
}

std::unique_ptr<Kernel> make_matmul_packed_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_as_conv(spec, attrs);
  return s ? packed_kernel_i8(spec, *s, exact_quantized_gemm(spec, attrs, *s)) : nullptr;
}

}  // namespace smelt::vulkan
