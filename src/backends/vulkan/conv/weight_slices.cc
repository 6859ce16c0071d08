#include "backends/vulkan/gemm/weight_slices.h"

#include "ops/conv/conv.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_conv_weight_slices(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  if (attrs.groups != 1) return nullptr;
  const Shape& y = spec.outputs[0].shape;
  const int axis = attrs.layout == Layout::kChannelsLast ? y.rank() - 1 : 1;
  return weight_slices(spec, {filter_output_axis(attrs, spec.inputs[1].shape.rank()), axis, y[axis]});
}

}  // namespace smelt::vulkan
