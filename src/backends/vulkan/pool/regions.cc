// Reads of images at computed places, pooled or convolved; and writes there.
#include <algorithm>

#include "backends/vulkan/core/common.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/conv/geometry.h"
#include "ops/pool/pool.h"

namespace smelt::vulkan {
namespace {

struct RoiPush {
  uint32_t n, channels;
  int32_t batch, height, width, y_height, y_width, ratio;
  float scale, extrapolation;
  uint32_t fault_code;
};
/// The kinds of roi_pool.comp.
enum class RoiKind : uint32_t { kMean, kMaximum, kPixels, kCrop, kNearest };

class RoiKernel final : public Kernel {
 public:
  RoiKernel(bool half, RoiKind kind, uint32_t batch_words, bool half_pixel, const RoiPush& push)
      : half_(half), kind_(kind), batch_words_(batch_words), half_pixel_(half_pixel), push_(push) {}
  bool reads(size_t i) const override { return i < 2 || (i == 2 && batch_words_ > 0); }
  const char* fault() const override { return "the image of a region is out of range"; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding rois, r.input(1));
    Binding batches = rois;
    if (batch_words_ > 0) {
      SMELT_ASSIGN(batches, r.input(2));
    }
    Dispatch d{half_ ? "roi_pool_f16" : "roi_pool_f32",
               {kWidth, static_cast<uint32_t>(kind_), batch_words_, half_pixel_ ? 1u : 0u},
               {x, rois, batches, r.output(0), r.faults()}};
    return dispatch_checked(r, std::move(d), push_.n, push_);
  }

 private:
  bool half_;
  RoiKind kind_;
  uint32_t batch_words_;
  bool half_pixel_;
  RoiPush push_;
};

struct DeformPush {
  int32_t x_size[2], y_size[2], kernel[2], stride[2], dilation[2], pad[2];
  int32_t c_in, c_out, groups, offset_groups, offset_channels;
  uint32_t batch;
};

class DeformKernel final : public Kernel {
 public:
  DeformKernel(uint32_t tile, bool bias, bool mask, uint64_t items, const DeformPush& push)
      : tile_(tile), bias_(bias), mask_(mask), items_(items), push_(push) {}
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding filter, r.input(1));
    SMELT_ASSIGN(const Binding offsets, r.input(2));
    Binding bias = x, mask = x;
    if (bias_) {
      SMELT_ASSIGN(bias, r.input(3));
    }
    if (mask_) {
      SMELT_ASSIGN(mask, r.input(4));
    }
    Dispatch d{"deform_conv",
               {kWidth, tile_, bias_ ? 1u : 0u, mask_ ? 1u : 0u},
               {x, filter, offsets, bias, mask, r.output(0)}};
    set_grid(d, items_, kWidth);
    return r.dispatch(d, push_);
  }

 private:
  uint32_t tile_;
  bool bias_, mask_;
  uint64_t items_;
  DeformPush push_;
};

struct UnpoolPush {
  uint32_t n, limit, inner[4] = {1, 1, 1, 1}, y[4] = {1, 1, 1, 1}, fault_code;
};

class UnpoolKernel final : public Kernel {
 public:
  UnpoolKernel(bool half, uint32_t words, const UnpoolPush& push) : half_(half), words_(words), push_(push) {}
  bool reads(size_t i) const override { return i < 2; }
  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding indices, r.input(1));
    r.fill(r.output(0), 0);
    Dispatch d{half_ ? "unpool_f16" : "unpool_f32", {kWidth, words_}, {x, indices, r.output(0), r.faults()}};
    return dispatch_checked(r, std::move(d), push_.n, push_);
  }

 private:
  bool half_;
  uint32_t words_;
  UnpoolPush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_roi_pool(const KernelSpec& spec) {
  const auto& a = spec.attrs<RoiAttrs>();
  if (!plain_reals(spec, {0, 1}, {0})) return nullptr;
  const Shape &x = spec.inputs[0].shape, &rois = spec.inputs[1].shape, &y = spec.outputs[0].shape;
  const RoiKind kind = a.crop_and_resize ? (a.nearest ? RoiKind::kNearest : RoiKind::kCrop)
                       : a.legacy        ? RoiKind::kPixels
                       : a.max           ? RoiKind::kMaximum
                                         : RoiKind::kMean;
  if (x.rank() != 4 || rois.rank() != 2 || y.rank() != 4 || y[0] != rois[0] || y[1] != x[1]) return nullptr;
  uint32_t words = 0;
  if (spec.has(2) && !a.legacy) {
    words = whole_words(spec.inputs[2].dtype);
    if (words == 0 || spec.inputs[2].shape.elements() != rois[0]) return nullptr;
  }
  for (int64_t n : {x[2], x[3], y[2], y[3]})
    if (n > 1 << 15) return nullptr;
  // A bin may be as large as the image.
  const int64_t ratio = std::max<int64_t>(a.sampling_ratio, 0);
  if (!a.crop_and_resize && (ratio > 255 || std::max((x[2] + 4) * (x[3] + 4), ratio * ratio) > kMaxRounds))
    return spec.refuse("bins of more than ", kMaxRounds, " samples");
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

std::unique_ptr<Kernel> make_deform_conv(const KernelSpec& spec) {
  const auto& a = spec.attrs<DeformConvAttrs>();
  if (!plain_reals(spec, {0, 1, 2}, {0}) || spec.outputs[0].dtype != DType::kF32) return nullptr;
  for (size_t i = 3; i < 5; ++i)
    if (spec.has(i) && !plain_reals(spec, {i}, {0})) return nullptr;
  const auto found = conv_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape);
  if (!found.ok() || found->output_shape(Layout::kChannelsFirst) != spec.outputs[0].shape) return nullptr;
  const ConvGeometry& g = *found;
  const int64_t taps = g.window.taps(), pixels = g.window.out_positions();
  if (a.offset_groups < 1 || g.in_channels % a.offset_groups != 0 || g.group_in() * taps > kMaxRounds) return nullptr;
  const int64_t places = g.batch * a.offset_groups * taps * pixels;
  if (spec.inputs[2].shape.elements() != 2 * places ||
      (spec.has(3) && spec.inputs[3].shape.elements() != g.out_channels) ||
      (spec.has(4) && spec.inputs[4].shape.elements() != places))
    return nullptr;
  DeformPush push{};
  const auto i32 = [](int64_t v) { return static_cast<int32_t>(v); };
  for (size_t d = 0; d < 2; ++d) {
    const WindowDim& w = g.window.dims[d];
    // Coordinates are exact in float32.
    if (w.in > 1 << 20 || w.out > 1 << 20 || w.stride > 1 << 10 || w.dilation > 1 << 10 || w.kernel > 1 << 10 ||
        w.pad_begin > 1 << 20 || w.pad_begin < -(1 << 20))
      return nullptr;
    push.x_size[d] = i32(w.in);
    push.y_size[d] = i32(w.out);
    push.kernel[d] = i32(w.kernel);
    push.stride[d] = i32(w.stride);
    push.dilation[d] = i32(w.dilation);
    push.pad[d] = i32(w.pad_begin);
  }
  push.c_in = i32(g.group_in());
  push.c_out = i32(g.group_out());
  push.groups = i32(g.groups);
  push.offset_groups = i32(a.offset_groups);
  push.offset_channels = i32(g.in_channels / a.offset_groups);
  push.batch = static_cast<uint32_t>(g.batch);
  const Tiling tiling = choose_tiling(spec.device, pixels, g.group_out());
  const int64_t tiles = (g.group_out() + tiling.tile - 1) / tiling.tile;
  return std::make_unique<DeformKernel>(tiling.tile, spec.has(3), spec.has(4),
                                        static_cast<uint64_t>(g.batch * g.groups * tiles * pixels), push);
}

std::unique_ptr<Kernel> make_max_unpool(const KernelSpec& spec) {
  const auto& a = spec.attrs<MaxUnpoolAttrs>();
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const uint32_t words = whole_words(spec.inputs[1].dtype);
  const int rank = static_cast<int>(a.kernel.size());
  if (!plain_reals(spec, {0}, {0}) || words == 0 || spec.inputs[1].shape.elements() != x.elements() || rank < 1 ||
      rank > 3 || x.rank() != rank + 2)
    return nullptr;
  const auto inner = unpooled_shape(a, x);
  if (!inner.ok() || inner->elements() < 1 || inner->elements() > UINT32_MAX) return nullptr;
  UnpoolPush push{static_cast<uint32_t>(x.elements()), static_cast<uint32_t>(inner->elements())};
  // Indices count channels of the inner image: those of y must be as many.
  if (y[1] != (*inner)[1]) return nullptr;
  for (int d = 0; d < rank; ++d) {
    push.inner[d] = static_cast<uint32_t>((*inner)[rank + 1 - d]);
    push.y[d] = static_cast<uint32_t>(y[rank + 1 - d]);
  }
  push.inner[3] = static_cast<uint32_t>((*inner)[0] * (*inner)[1]);
  push.y[3] = static_cast<uint32_t>(y[0] * y[1]);
  return std::make_unique<UnpoolKernel>(spec.outputs[0].dtype == DType::kF16, words, push);
}

}  // namespace smelt::vulkan
