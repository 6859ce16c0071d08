#include "shaders/one_hot.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
namespace {

constexpr shaders::Variant<shaders::OneHot> kShaders[][2] = {{shaders::one_hot_8_i32, shaders::one_hot_8_i64},
                                                             {shaders::one_hot_16_i32, shaders::one_hot_16_i64},
                                                             {shaders::one_hot_32_i32, shaders::one_hot_32_i64},
                                                             {shaders::one_hot_64_i32, shaders::one_hot_64_i64}};

}  // namespace

std::unique_ptr<Kernel> make_one_hot(const KernelSpec& spec) {
  const auto& a = spec.attrs<OneHotAttrs>();
  const ValueType& y = spec.outputs[0];
  const int width = element_width_index(y.dtype);
  const uint32_t words = index_words(spec.inputs[0].dtype);
  const bool both = !spec.has(3);
  if (width < 0 || y.shape.rank() == 0 || spec.inputs[2].dtype != y.dtype) return nullptr;
  if (spec.inputs[2].shape.elements() < (both ? 2 : 1)) return nullptr;
  if (!both && (spec.inputs[3].dtype != y.dtype || spec.inputs[3].shape.elements() < 1)) return nullptr;
  const auto axis = normalize_axis(a.axis, y.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(y.shape, *axis);
  if (spec.inputs[0].shape.elements() != v.outer * v.inner) return nullptr;
  // One input holds both values: off, then on.
  return shader_kernel(kShaders[width][words - 1], {.negative = a.wrap_negative, .off = 0, .on = both ? 1u : 0u},
                       {input(0), input(2), input(both ? 2 : 3), output(0)}, static_cast<uint64_t>(y.shape.elements()),
                       {.n = u32(y.shape.elements()), .depth = u32(v.extent), .inner = u32(v.inner)});
}

}  // namespace smelt::vulkan
