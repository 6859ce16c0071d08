// RoiPool, RoiAlign and CropAndResize: bins of image regions that an input gives.
#include <algorithm>

#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/pool/pool.h"
#include "shaders/roi_pool.h"

namespace smelt::vulkan {
namespace {

using RoiPush = shaders::RoiPool::Push;

/// The kinds of roi_pool.comp.
enum class RoiKind : uint32_t { kMean, kMaximum, kPixels, kCrop, kNearest };

class RoiKernel final : public Kernel {
 public:
  RoiKernel(bool fp16, RoiKind kind, uint32_t batch_words, bool half_pixel, const RoiPush& push)
      : fp16_(fp16), kind_(kind), batch_words_(batch_words), half_pixel_(half_pixel), push_(push) {}
  bool reads(size_t i) const override { return i < 2 || (i == 2 && batch_words_ > 0); }
  const char* fault() const override { return "the image of a region is out of range"; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding rois, r.input(1));
    Binding batches = rois;
    if (batch_words_ > 0) {
      SMELT_ASSIGN(batches, r.input(2));
    }
    return run_checked(r, fp16_ ? shaders::roi_pool_f16 : shaders::roi_pool_f32,
                       {.kind = static_cast<uint32_t>(kind_), .batch_words = batch_words_, .half_pixel = half_pixel_},
                       {x, rois, batches, r.output(0), r.faults()}, push_.n, push_);
  }

 private:
  bool fp16_;
  RoiKind kind_;
  uint32_t batch_words_;
  bool half_pixel_;
  RoiPush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_roi_pool(const KernelSpec& spec) {
  const auto& a = spec.attrs<RoiAttrs>();
  if (!unquantized_floats(spec, {0, 1}, {0})) return nullptr;
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
  RoiPush push{};
  push.n = static_cast<uint32_t>(y.elements());
  push.channels = static_cast<uint32_t>(x[1]);
  push.batch = static_cast<int32_t>(x[0]);
  push.height = static_cast<int32_t>(x[2]);
  push.width = static_cast<int32_t>(x[3]);
  push.y_height = static_cast<int32_t>(y[2]);
  push.y_width = static_cast<int32_t>(y[3]);
  push.ratio = static_cast<int32_t>(ratio);
  push.scale = static_cast<float>(a.scale);
  push.extrapolation = static_cast<float>(a.extrapolation);
  return std::make_unique<RoiKernel>(spec.outputs[0].dtype == DType::kF16, kind, words, a.half_pixel, push);
}

}  // namespace smelt::vulkan
