#include <algorithm>
#include <cmath>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/fake_quant.h"

namespace smelt::vulkan {
std::unique_ptr<Kernel> make_fake_quant(const KernelSpec& spec) {
  const auto& a = spec.attrs<FakeQuantAttrs>();
  if (a.bits < 2 || a.bits > 16) return nullptr;
  const float least = a.narrow_range ? 1.0f : 0.0f, most = static_cast<float>((1 << a.bits) - 1);
  const float scale = (a.max - a.min) / (most - least);
  if (!(scale > 0)) return nullptr;
  const float zero = std::clamp(std::round(least - a.min / scale), least, most);
  const uint32_t n = u32(spec.outputs[0].shape.elements());
  return shader_kernel(
      spec.outputs[0].dtype == DType::kF16 ? shaders::fake_quant_f16 : shaders::fake_quant_f32, {},
      {input(0), output(0)}, n,
      {.n = n, .low = (least - zero) * scale, .high = (most - zero) * scale, .scale = scale, .inverse = 1.0f / scale});
}

}  // namespace smelt::vulkan
