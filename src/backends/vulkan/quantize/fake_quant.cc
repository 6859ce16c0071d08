#include <algorithm>
#include <cmath>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n;
  float low, high, scale, inverse;
};

class FakeQuantKernel final : public Kernel {
 public:
  FakeQuantKernel(const char* shader, const Push& push) : shader_(shader), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    Dispatch d{shader_, {kWidth}, {x, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_fake_quant(const KernelSpec& spec) {
  const auto& a = spec.attrs<FakeQuantAttrs>();
  if (!unquantized_floats(spec, {0}, {0}) || a.bits < 2 || a.bits > 16) return nullptr;
  const float least = a.narrow_range ? 1.0f : 0.0f, most = static_cast<float>((1 << a.bits) - 1);
  const float scale = (a.max - a.min) / (most - least);
  if (!(scale > 0)) return nullptr;
  const float zero = std::clamp(std::round(least - a.min / scale), least, most);
  const Push push{static_cast<uint32_t>(spec.outputs[0].shape.elements()), (least - zero) * scale,
                  (most - zero) * scale, scale, 1.0f / scale};
  const char* shader = spec.outputs[0].dtype == DType::kF16 ? "fake_quant_f16" : "fake_quant_f32";
  return std::make_unique<FakeQuantKernel>(shader, push);
}

}  // namespace smelt::vulkan
