#include "backends/vulkan/quantize/dynamic_quantize.h"

#include "ops/common/operands.h"
#include "ops/conv/conv.h"

namespace smelt::vulkan {
namespace {

template <class A>
std::unique_ptr<Kernel> dynamic_quant_conv(const KernelSpec& spec) {
  A a = spec.attrs<A>();
  const Tensor& filter = *spec.constant(1);
  const Shape& x = spec.inputs[0].shape;
  if (!a.dynamic_quant || x.rank() < 2 || x[0] < 1) return nullptr;
  if (!has_integer_quant_params(filter, filter_dims(a.filter, filter.rank()).output)) return nullptr;
  a.dynamic_quant = false;
  return dynamic_quant_product(spec, make_attrs<A>(a), x.elements() / x[0], a.asymmetric_inputs);
}

}  // namespace

std::unique_ptr<Kernel> make_conv_dynamic_quant(const KernelSpec& spec) { return dynamic_quant_conv<ConvAttrs>(spec); }

std::unique_ptr<Kernel> make_conv_transpose_dynamic_quant(const KernelSpec& spec) {
  return dynamic_quant_conv<ConvTransposeAttrs>(spec);
}

}  // namespace smelt::vulkan
