#include "shaders/grid_sample.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"
#include "ops/resize/resize.h"

namespace smelt::vulkan {
namespace {

class GridSampleKernel final : public Kernel {
 public:
  GridSampleKernel(shaders::Variant<shaders::GridSample> shader, const GridSampleAttrs& a, bool volumes,
                   const shaders::GridSample::Push& push)
      : shader_(shader),
        constants_{.mode = static_cast<uint32_t>(a.mode),
                   .padding = static_cast<uint32_t>(a.padding),
                   .align_corners = a.align_corners,
                   .volumes = volumes},
        push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding grid, r.input(1));
    return r.run(shader_, constants_, {x, grid, r.output(0)}, Grid::flat(push_.n, kWidth), push_);
  }

 private:
  shaders::Variant<shaders::GridSample> shader_;
  shaders::GridSample::Constants constants_;
  shaders::GridSample::Push push_;
};

}  // namespace

std::unique_ptr<Kernel> make_grid_sample(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (!unquantized_floats(spec, {0, 1}, {0}) || (x.rank() != 4 && x.rank() != 5)) return nullptr;
  const bool volumes = x.rank() == 5;
  const auto word = [](int64_t v) { return static_cast<uint32_t>(v); };
  const shaders::GridSample::Push push{.n = word(y.elements()),
                                       .channels = word(x[1]),
                                       .depth = word(volumes ? x[2] : 1),
                                       .height = word(x[x.rank() - 2]),
                                       .width = word(x.back()),
                                       .positions = word(product(y, 2, y.rank()))};
  const auto shader = spec.outputs[0].dtype == DType::kF16 ? shaders::grid_sample_f16 : shaders::grid_sample_f32;
  return std::make_unique<GridSampleKernel>(shader, spec.attrs<GridSampleAttrs>(), volumes, push);
}

}  // namespace smelt::vulkan
