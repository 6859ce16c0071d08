// RoiPool, RoiAlign and CropAndResize: bins of image regions that an input gives.
#include <algorithm>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/pool/pool.h"
#include "shaders/roi_pool.h"

namespace smelt::vulkan {
namespace {

/// The kinds of roi_pool.comp.
enum class RoiKind : uint32_t { kMean, kMaximum, kPixels, kCrop, kNearest };

}  // namespace

std::unique_ptr<Kernel> make_roi_pool(const KernelSpec& spec) {
  const auto& a = spec.attrs<RoiAttrs>();
  const Shape &x = spec.inputs[0].shape, &rois = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  const RoiKind kind = a.crop_and_resize ? (a.nearest ? RoiKind::kNearest : RoiKind::kCrop)
                       : a.legacy        ? RoiKind::kPixels
                       : a.max           ? RoiKind::kMaximum
                                         : RoiKind::kMean;
  if (x.rank() != 4 || rois.rank() != 2 || y.rank() != 4 || y[0] != rois[0] || y[1] != x[1]) return nullptr;
  uint32_t words = 0;
  if (spec.has(2) && !a.legacy) {
    words = index_words(spec.inputs[2].dtype);
    if (words == 0 || spec.inputs[2].shape.elements() != rois[0]) return nullptr;
  }
  for (int64_t n : {x[2], x[3], y[2], y[3]})
    if (n > 1 << 15) return nullptr;
  // A bin may be as large as the image.
  const int64_t ratio = std::max<int64_t>(a.sampling_ratio, 0);
  if (!a.crop_and_resize && (ratio > 255 || std::max((x[2] + 4) * (x[3] + 4), ratio * ratio) > kMaxLoopIterations))
    return spec.refuse("bins of more than ", kMaxLoopIterations, " samples");
  auto kernel = shader_kernel(spec.outputs[0].dtype == DType::kF16 ? shaders::roi_pool_f16 : shaders::roi_pool_f32,
                              {.kind = static_cast<uint32_t>(kind), .batch_words = words, .half_pixel = a.half_pixel},
                              {input(0), input(1), input(words > 0 ? 2 : 1), output(0), faults()},
                              static_cast<uint64_t>(y.elements()),
                              {.n = u32(y.elements()),
                               .channels = u32(x[1]),
                               .batch = i32(x[0]),
                               .height = i32(x[2]),
                               .width = i32(x[3]),
                               .y_height = i32(y[2]),
                               .y_width = i32(y[3]),
                               .ratio = i32(ratio),
                               .scale = static_cast<float>(a.scale),
                               .extrapolation = static_cast<float>(a.extrapolation),
                               .fault_code = 0});
  kernel->fault_text = "the image of a region is out of range";
  return kernel;
}

}  // namespace smelt::vulkan
