#include <algorithm>
#include <cmath>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/elementwise/elementwise.h"
#include "shaders/fake_quant.h"

namespace smelt::vulkan {
namespace {

using FakeQuantPush = shaders::FakeQuant::Push;

class FakeQuantKernel final : public Kernel {
 public:
  FakeQuantKernel(shaders::Variant<shaders::FakeQuant> shader, const FakeQuantPush& push)
      : shader_(shader), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    return r.run(shader_, {}, {x, r.output(0)}, Grid::flat(push_.n, kWidth), push_);
  }

 private:
  shaders::Variant<shaders::FakeQuant> shader_;
  FakeQuantPush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_fake_quant(const KernelSpec& spec) {
  const auto& a = spec.attrs<FakeQuantAttrs>();
  if (!unquantized_floats(spec, {0}, {0}) || a.bits < 2 || a.bits > 16) return nullptr;
  const float least = a.narrow_range ? 1.0f : 0.0f, most = static_cast<float>((1 << a.bits) - 1);
  const float scale = (a.max - a.min) / (most - least);
  if (!(scale > 0)) return nullptr;
  const float zero = std::clamp(std::round(least - a.min / scale), least, most);
  const FakeQuantPush push{.n = static_cast<uint32_t>(spec.outputs[0].shape.elements()),
                           .low = (least - zero) * scale,
                           .high = (most - zero) * scale,
                           .scale = scale,
                           .inverse = 1.0f / scale};
  const auto shader = spec.outputs[0].dtype == DType::kF16 ? shaders::fake_quant_f16 : shaders::fake_quant_f32;
  return std::make_unique<FakeQuantKernel>(shader, push);
}

}  // namespace smelt::vulkan
