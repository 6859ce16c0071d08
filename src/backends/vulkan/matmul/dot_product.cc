#include "backends/vulkan/gemm/integer_dot_product.h"
#include "backends/vulkan/gemm/packed.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_matmul_i8_dot_product(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_as_conv(spec, attrs);
  return s ? dot_product_kernel(spec, s, exact_quantized_gemm(spec, attrs, *s)) : nullptr;
}

std::unique_ptr<Kernel> make_matmul_integer_dot_product(const KernelSpec& spec) {
  return dot_product_accumulators(spec, matmul_as_conv(spec, {}, false));
}

}  // namespace smelt::vulkan
