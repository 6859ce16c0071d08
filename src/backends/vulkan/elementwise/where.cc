#include "shaders/where.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "shaders/where_texture.h"

namespace smelt::vulkan {
std::unique_ptr<Kernel> make_where_texture(const KernelSpec& spec) {
  if (!spec.device.stores(DType::kBool)) return nullptr;
  const auto a = image_of(spec, spec.inputs[1]), b = image_of(spec, spec.inputs[2]),
             y = image_of(spec, spec.outputs[0]);
  if (!a || !b || !y) return nullptr;
  return texture_kernel({spec.form, {std::nullopt, a, b}, {y}}, {shaders::where_3d, shaders::where_2d}, {},
                        {input(0), input(1), input(2), output(0)}, y->count(),
                        {.a_size = a->size,
                         .b_size = b->size,
                         .y_size = y->size,
                         .c_stride = image_strides(broadcast_strides(spec.inputs[0].shape, spec.outputs[0].shape)),
                         .n = static_cast<uint32_t>(y->count())});
}

std::unique_ptr<Kernel> make_where(const KernelSpec& spec) {
  const Shape& out = spec.outputs[0].shape;
  const DType dtype = spec.outputs[0].dtype;
  const int width = element_width_index(dtype);
  if (!spec.device.stores(DType::kBool) || width < 0) return nullptr;
  if (spec.inputs[1].dtype != dtype || spec.inputs[2].dtype != dtype) return nullptr;
  const auto walk =
      Walk<3>::make(out, {broadcast_strides(spec.inputs[0].shape, out), broadcast_strides(spec.inputs[1].shape, out),
                          broadcast_strides(spec.inputs[2].shape, out)});
  if (!walk) return nullptr;
  constexpr shaders::Variant<shaders::Where> kShaders[] = {shaders::where_8, shaders::where_16, shaders::where_32,
                                                           shaders::where_64};
  return shader_kernel(kShaders[width], {}, {input(0), input(1), input(2), output(0)}, walk->n, {.walk = *walk});
}

}  // namespace smelt::vulkan
