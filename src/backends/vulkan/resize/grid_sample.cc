#include "shaders/grid_sample.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/index.h"
#include "ops/resize/resize.h"

namespace smelt::vulkan {
std::unique_ptr<Kernel> make_grid_sample(const KernelSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (x.rank() != 4 && x.rank() != 5) return nullptr;
  const bool volumes = x.rank() == 5;
  const auto& a = spec.attrs<GridSampleAttrs>();
  return shader_kernel(spec.outputs[0].dtype == DType::kF16 ? shaders::grid_sample_f16 : shaders::grid_sample_f32,
                       {.mode = static_cast<uint32_t>(a.mode),
                        .padding = static_cast<uint32_t>(a.padding),
                        .align_corners = a.align_corners,
                        .volumes = volumes},
                       {input(0), input(1), output(0)}, static_cast<uint64_t>(y.elements()),
                       {.n = u32(y.elements()),
                        .channels = u32(x[1]),
                        .depth = u32(volumes ? x[2] : 1),
                        .height = u32(x[x.rank() - 2]),
                        .width = u32(x.back()),
                        .positions = u32(product(y, 2, y.rank()))});
}

}  // namespace smelt::vulkan
