// Deformable convolution: each tap reads the image at a position that an input offsets.
#include "shaders/deform_conv.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/gemm/operand.h"
#include "ops/conv/geometry.h"
#include "ops/pool/pool.h"

namespace smelt::vulkan {
namespace {

using DeformPush = shaders::DeformConv::Push;

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
    return r.run(shaders::deform_conv, {.tile = tile_, .bias = bias_, .mask = mask_},
                 {x, filter, offsets, bias, mask, r.output(0)}, Grid::flat(items_, kWidth), push_);
  }

 private:
  uint32_t tile_;
  bool bias_, mask_;
  uint64_t items_;
  DeformPush push_;
};

}  // namespace

std::unique_ptr<Kernel> make_deform_conv(const KernelSpec& spec) {
  const auto& a = spec.attrs<DeformConvAttrs>();
  if (!unquantized_floats(spec, {0, 1, 2}, {0}) || spec.outputs[0].dtype != DType::kF32) return nullptr;
  for (size_t i = 3; i < 5; ++i)
    if (spec.has(i) && !unquantized_floats(spec, {i}, {0})) return nullptr;
  const auto found = conv_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape);
  if (!found.ok() || found->output_shape(Layout::kChannelsFirst) != spec.outputs[0].shape) return nullptr;
  const ConvGeometry& g = *found;
  const int64_t taps = g.window.taps(), pixels = g.window.out_positions();
  if (a.offset_groups < 1 || g.in_channels % a.offset_groups != 0 || g.group_in() * taps > kMaxLoopIterations)
    return nullptr;
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

}  // namespace smelt::vulkan
