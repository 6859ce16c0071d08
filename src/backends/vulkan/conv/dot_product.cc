#include "backends/vulkan/gemm/integer_dot_product.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/quantize/dynamic_quantize.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_conv_i8_dot_product(const KernelSpec& spec) {
  const auto s = conv_2d_shape(spec);
  return s ? dot_product_kernel(spec, s, exact_quantized_gemm(spec, *s)) : nullptr;
}

std::unique_ptr<Kernel> make_conv_integer_dot_product(const KernelSpec& spec) {
  return dot_product_accumulators(spec, conv_2d_shape(spec, false));
}

std::unique_ptr<Kernel> make_conv_dynamic_quant_dot_product(const KernelSpec& spec) {
  ConvAttrs a = spec.attrs<ConvAttrs>();
  if (!a.hybrid) return nullptr;
  a.hybrid = false;
  const Node node = with_attrs(spec.node, make_attrs<ConvAttrs>(a));
  return dot_product_dynamic_quant(spec.part({node, spec.inputs, spec.constants, spec.outputs}), a.asymmetric_inputs);
}

}  // namespace smelt::vulkan
