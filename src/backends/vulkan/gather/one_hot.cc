#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"

namespace smelt::vulkan {
namespace {

constexpr const char* kShaders[][2] = {{"one_hot_8_i32", "one_hot_8_i64"},
                                       {"one_hot_16_i32", "one_hot_16_i64"},
                                       {"one_hot_32_i32", "one_hot_32_i64"},
                                       {"one_hot_64_i32", "one_hot_64_i64"}};

struct Push {
  uint32_t n, depth, inner;
};

class OneHotKernel final : public Kernel {
 public:
  OneHotKernel(const char* shader, bool negative, bool both, const Push& push)
      : shader_(shader), negative_(negative), both_(both), push_(push) {}
  bool reads(size_t i) const override { return i != 1; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding indices, r.input(0));
    SMELT_ASSIGN(const Binding on, r.input(2));
    SMELT_ASSIGN(const Binding off, r.input(both_ ? 2 : 3));
    Dispatch d{shader_, {kWidth, negative_ ? 1u : 0u, 0u, both_ ? 1u : 0u}, {indices, on, off, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  bool negative_, both_;  ///< both: input 2 is [off, on]
  Push push_;
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
  return std::make_unique<OneHotKernel>(
      kShaders[width][words - 1], a.wrap_negative, both,
      Push{static_cast<uint32_t>(y.shape.elements()), static_cast<uint32_t>(v.extent), static_cast<uint32_t>(v.inner)});
}

}  // namespace smelt::vulkan
