#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/resize/resize.h"

namespace smelt::vulkan {
namespace {

struct Push {
  uint32_t n;
  uint32_t channels, depth, height, width, positions;
};

class GridSampleKernel final : public Kernel {
 public:
  GridSampleKernel(const char* shader, const GridSampleAttrs& a, bool volumes, const Push& push)
      : shader_(shader),
        constants_{kWidth, static_cast<uint32_t>(a.mode), static_cast<uint32_t>(a.padding), a.align_corners ? 1u : 0u,
                   volumes ? 1u : 0u},
        push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding grid, r.input(1));
    Dispatch d{shader_, constants_, {x, grid, r.output(0)}};
    set_grid(d, push_.n, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  const char* shader_;
  std::vector<uint32_t> constants_;
  Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_grid_sample(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (!unquantized_floats(spec, {0, 1}, {0}) || (x.rank() != 4 && x.rank() != 5)) return nullptr;
  const bool volumes = x.rank() == 5;
  const auto word = [](int64_t v) { return static_cast<uint32_t>(v); };
  const Push push{word(y.elements()),    word(x[1]),     word(volumes ? x[2] : 1),
                  word(x[x.rank() - 2]), word(x.back()), word(product(y, 2, y.rank()))};
  const char* shader = spec.outputs[0].dtype == DType::kF16 ? "grid_sample_f16" : "grid_sample_f32";
  return std::make_unique<GridSampleKernel>(shader, spec.attrs<GridSampleAttrs>(), volumes, push);
}

}  // namespace smelt::vulkan
