#include "shaders/one_hot.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
namespace {

constexpr shaders::Variant<shaders::OneHot> kShaders[][2] = {{shaders::one_hot_8_i32, shaders::one_hot_8_i64},
                                                             {shaders::one_hot_16_i32, shaders::one_hot_16_i64},
                                                             {shaders::one_hot_32_i32, shaders::one_hot_32_i64},
                                                             {shaders::one_hot_64_i32, shaders::one_hot_64_i64}};

class OneHotKernel final : public Kernel {
 public:
  OneHotKernel(shaders::Variant<shaders::OneHot> shader, bool negative, bool both, const shaders::OneHot::Push& push)
      : shader_(shader), negative_(negative), both_(both), push_(push) {}
  bool reads(size_t i) const override { return i != 1; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding indices, r.input(0));
    SMELT_ASSIGN(const Binding on, r.input(2));
    SMELT_ASSIGN(const Binding off, r.input(both_ ? 2 : 3));
    return r.run(shader_, {.negative = negative_, .off = 0, .on = both_ ? 1u : 0u}, {indices, on, off, r.output(0)},
                 Grid::flat(push_.n, kWidth), push_);
  }

 private:
  shaders::Variant<shaders::OneHot> shader_;
  bool negative_, both_;  ///< both: input 2 is [off, on]
  shaders::OneHot::Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_one_hot(const KernelSpec& spec) {
  const auto& a = spec.attrs<OneHotAttrs>();
  const ValueType& y = spec.outputs[0];
  const int width = element_width_index(y.dtype);
  const uint32_t words = index_words(spec.inputs[0].dtype);
  const bool both = !spec.has(3);
  if (width < 0 || words == 0 || y.shape.rank() == 0 || spec.inputs[2].dtype != y.dtype) return nullptr;
  if (spec.inputs[2].shape.elements() < (both ? 2 : 1)) return nullptr;
  if (!both && (spec.inputs[3].dtype != y.dtype || spec.inputs[3].shape.elements() < 1)) return nullptr;
  const auto axis = normalize_axis(a.axis, y.shape.rank());
  if (!axis.ok()) return nullptr;
  const AxisView v = axis_view(y.shape, *axis);
  if (spec.inputs[0].shape.elements() != v.outer * v.inner) return nullptr;
  return std::make_unique<OneHotKernel>(kShaders[width][words - 1], a.wrap_negative, both,
                                        shaders::OneHot::Push{.n = static_cast<uint32_t>(y.shape.elements()),
                                                              .depth = static_cast<uint32_t>(v.extent),
                                                              .inner = static_cast<uint32_t>(v.inner)});
}

}  // namespace smelt::vulkan
