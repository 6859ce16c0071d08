// Deformable convolution: each tap reads the image at a position that an input offsets.
#include "shaders/deform_conv.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/gemm/operand.h"
#include "ops/conv/geometry.h"
#include "ops/pool/pool.h"

namespace smelt::vulkan {
std::unique_ptr<Kernel> make_deform_conv(const KernelSpec& spec) {
  const auto& a = spec.attrs<DeformConvAttrs>();
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
  shaders::DeformConv::Push push{};
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
  return shader_kernel(
      shaders::deform_conv, {.tile = tiling.tile, .bias = spec.has(3), .mask = spec.has(4)},
      {input(0), input(1), input(2), input(spec.has(3) ? 3 : 0), input(spec.has(4) ? 4 : 0), output(0)},
      static_cast<uint64_t>(g.batch * g.groups * tiles * pixels), push);
}

}  // namespace smelt::vulkan
