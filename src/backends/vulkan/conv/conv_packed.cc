#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/packed_kernel.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_conv_packed_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto s = attrs.dynamic_quant ? std::nullopt : conv_2d_shape(spec);
  if (!s) return nullptr;
  return packed_kernel_f32(spec, *s, attrs.act, filter_output_axis(attrs, spec.inputs[1].shape.rank()), -1);
}

std::unique_ptr<Kernel> make_conv_packed_i8(const KernelSpec& spec) {
  const auto s = conv_2d_shape(spec);
  return s ? packed_kernel_i8(spec, *s, exact_quantized_gemm(spec, *s)) : nullptr;
}

}  // namespace smelt::vulkan
