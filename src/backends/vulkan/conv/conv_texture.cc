#include <algorithm>
#include <cstdlib>

#include "backends/vulkan/conv/conv_texture.h"

#include "backends/vulkan/conv/conv.h"
#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "base/cat.h"
#include "ops/common/operands.h"
#include "ops/conv/conv.h"
#include "shaders/conv_texture.h"
#include "shaders/weights_pack.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

/// How groups align with texels of four channels (kGroups of conv_texture.comp).
enum class Groups : uint32_t { kOne, kWhole, kOther };

/// The most texels of input channels that one texel of output channels reads.
int64_t widest(const ConvShape& s) {
  int64_t span = 1;
  for (int64_t o = 0; o < s.all_out(); o += 4) {
    const int64_t first = o / s.c_out * s.c_in / 4;
    const int64_t last = ((std::min(o + 3, s.all_out() - 1) / s.c_out + 1) * s.c_in - 1) / 4;
    span = std::max(span, last - first + 1);
  }
  return span;
}

/// Invocations below which outputs are not grouped further, to keep the device busy.
constexpr uint64_t kEnoughInvocations = 512;

bool is_simple_depthwise(const ConvShape& s) { return s.depthwise() && s.c_out == 1; }

/// True for 2-D shapes within the shader's limits.
bool fits(const ConvShape& s) {
  if (!s.planar()) return false;
  for (int d = 1; d < 3; ++d)
    if (s.dilation[d] > 1 << 14 || s.kernel[d] > 1 << 10 || std::abs(s.pad[d]) > 1 << 20 || s.stride[d] > 1 << 12)
      return false;
  if (s.all_in() > 1 << 24 || s.all_out() > 1 << 24) return false;
  const int64_t ins = is_simple_depthwise(s) ? 1 : widest(s);
  return s.taps() * ins <= kMaxLoopIterations && (s.all_out() + 3) / 4 * s.taps() * ins * 4 < int64_t{1} << 26;
}

/// Constant input 1 as conv_texture.comp reads it. Set `filter` if the host dequantizes it before the device packs it.
Arg packed_on_device(const Tensor& filter, bool raw_fp16, bool fp16, bool depthwise,
                     const shaders::WeightsPack::Push& p) {
  return {[=](KernelRecorder& r) -> Result<Binding> {
    const std::string key = Cat(fp16 ? "f16vec4 " : "vec4 ", p.group_in, " ", p.group_out, " ", p.all_out, " ", p.taps,
                                " ", p.filter_g, " ", p.filter_o, " ", p.filter_i, " ", p.filter_s);
    const auto pack = [&](Recorder& to, const Binding& raw, const Binding& packed) {
      return to.run(raw_fp16 ? shaders::weights_pack_f16 : shaders::weights_pack_f32,
                    {.half = fp16, .depthwise = depthwise}, {raw, packed}, Grid::flat(p.n, kWidth), p);
    };
    const size_t bytes = size_t{p.n} * (fp16 ? 8 : 16);
    if (!filter.defined()) return r.packed(1, key, bytes, pack);
    Status status;
    const auto floats = static_cast<size_t>(filter.elements()) * sizeof(float);
    const auto read = [&](void* to) { status = real_values(filter, static_cast<float*>(to)); };
    const auto packed = r.packed(1, key, floats, read, bytes, pack);
    SMELT_TRY(status);
    return packed;
  }};
}

}  // namespace

std::unique_ptr<Kernel> conv_texture(const KernelSpec& spec, const ConvShape& s, const ConvTexturePlan& plan) {
  FloatOperand weights, bias;
  if (!fits(s) || !make_float_operand(spec, 1, weights)) return nullptr;
  if (spec.has(2) && !make_f32_operand(spec, 2, bias)) return nullptr;
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y) return nullptr;
  const Tensor& filter = *spec.constant(1);
  const bool fp16 = weights.fp16 || spec.fp16, depthwise = is_simple_depthwise(s);
  const int64_t span = depthwise ? 1 : widest(s), outs = (s.all_out() + 3) / 4;
  const shaders::WeightsPack::Push pack{.n = u32(outs * s.taps() * (depthwise ? 1 : span * 4)),
                                        .all_out = i32(s.all_out()),
                                        .taps = i32(s.taps()),
                                        .span = i32(span),
                                        .group_in = i32(s.c_in),
                                        .group_out = i32(s.c_out),
                                        .filter_g = i32(plan.inputs_first ? s.c_in * s.filter_i : s.c_out * s.filter_o),
                                        .filter_o = i32(s.filter_o),
                                        .filter_i = i32(s.filter_i),
                                        .filter_s = i32(s.filter_s)};
  if (std::max(size_t{pack.n} * (fp16 ? 8 : 16), filter.bytes()) > spec.device.max_binding()) return nullptr;
  // Neighbours of a transposed one seldom meet the same taps.
  const uint32_t pixels = plan.transposed ? 1 : s.out[2] >= 4 ? 4 : s.out[2] >= 2 ? 2 : 1;
  // The more outputs share a texel that was read the better, as long as there are invocations enough.
  uint32_t quads = 1;
  if (s.groups == 1)
    while (quads < 4 && quads * 2 <= outs && y->count() / (pixels * quads * 2) >= kEnoughInvocations) quads *= 2;
  const Groups groups = s.groups == 1 || depthwise            ? Groups::kOne
                        : s.c_in % 4 == 0 && s.c_out % 4 == 0 ? Groups::kWhole
                                                              : Groups::kOther;
  const Arg packed = packed_on_device(weights.constant ? filter : Tensor(),
                                      !weights.constant && filter.dtype() == DType::kF16, fp16, depthwise, pack);
  using Variants = shaders::Variant<shaders::ConvTexture>[2];
  static constexpr Variants f32_multiply{shaders::conv_3d, shaders::conv_2d},
      fp16_multiply{shaders::conv_fp16_multiply_3d, shaders::conv_fp16_multiply_2d};
  auto kernel = texture_kernel(
      {spec.form, {x}, {y}}, spec.fp16 ? fp16_multiply : f32_multiply,
      {.pixels = pixels,
       .axes = plan.axes,
       .bias = spec.has(2),
       .half = fp16,
       .depthwise = depthwise,
       .quads = quads,
       .groups = static_cast<uint32_t>(groups),
       .transposed = plan.transposed},
      {input(0), packed, spec.has(2) ? float_arg(bias) : packed, output(0)},
      static_cast<uint64_t>((s.out[2] + pixels - 1) / pixels * s.out[1] * ((outs + quads - 1) / quads) * s.batch),
      {.x_size = {i32(s.in[2]), i32(s.in[1]), i32(s.all_in()), i32(s.batch)},
       .y_size = {i32(s.out[2]), i32(s.out[1]), i32(s.all_out()), i32(s.batch)},
       .kernel = {i32(s.kernel[2]), i32(s.kernel[1])},
       .stride = {i32(s.stride[2]), i32(s.stride[1])},
       .dilation = {i32(s.dilation[2]), i32(s.dilation[1])},
       .pad = {i32(s.pad[2]), i32(s.pad[1])},
       .act = gpu_activation(plan.act),
       .group_in = i32(s.c_in),
       .group_out = i32(s.c_out),
       .span = i32(span)});
  kernel->gains_by_textures = true;
  return kernel;
}

std::unique_ptr<Kernel> make_conv_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto s = ConvShape::make(spec);
  if (!s || attrs.dynamic_quant || (spec.outputs[0].shape.rank() == 3 && s->in[1] != 1)) return nullptr;
  const auto axes = pixel_axes(spec.form, spec.outputs[0].shape.rank(), s->channels_last);
  return axes ? conv_texture(spec, *s, {.axes = *axes, .act = attrs.act}) : nullptr;
}

std::unique_ptr<Kernel> make_conv_transpose_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const auto s = transposed_shape(spec);
  if (!s || (spec.outputs[0].shape.rank() == 3 && s->in[1] != 1)) return nullptr;
  const auto axes = pixel_axes(spec.form, spec.outputs[0].shape.rank(), s->channels_last);
  if (!axes) return nullptr;
  return conv_texture(
      spec, *s,
      {.axes = *axes, .transposed = true, .inputs_first = attrs.filter == FilterLayout::kIOS, .act = attrs.act});
}

}  // namespace smelt::vulkan
