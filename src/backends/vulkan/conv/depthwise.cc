// Depthwise convolutions of channels-last images, one filter a channel.
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/packed_kernel.h"
#include "shaders/depthwise.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kExactProducts = 256;  ///< of 8-bit values: float32 holds their sum

/// The shape as depthwise.comp runs it.
struct DepthwisePlan {
  ConvShape shape;
  uint32_t width, pixels;
  shaders::DepthwiseGeometry geometry;

  static std::optional<DepthwisePlan> make(const KernelSpec& spec) {
    const auto found = spec.attrs<ConvAttrs>().dynamic_quant ? std::nullopt : conv_2d_shape(spec);
    if (!found) return std::nullopt;
    const ConvShape& s = *found;
    if (!s.depthwise() || s.c_out != 1 || s.groups % 4 != 0 || s.kernel[2] > 7 || s.stride[2] > 2 ||
        s.dilation[1] != 1 || s.dilation[2] != 1)
      return std::nullopt;
    const uint32_t pixels = s.out[2] >= 4 ? 4 : u32(s.out[2]);
    return DepthwisePlan{s,
                         spec.device.info().type == "CPU" ? 8 : kWidth,
                         pixels,
                         {{i32(s.in[1]), i32(s.in[2])},
                          {i32(s.out[1]), i32(s.out[2])},
                          i32(s.kernel[1]),
                          i32(s.stride[1]),
                          {i32(s.pad[1]), i32(s.pad[2])},
                          i32(s.groups / 4),
                          i32(s.groups / 4 * ((s.out[2] + pixels - 1) / pixels) * s.out[1] * s.batch)}};
  }
  template <class Constants>
  Constants constants() const {
    Constants c;
    c.width = width;
    c.pixels = pixels;
    c.kernel = u32(shape.kernel[2]);
    c.stride = u32(shape.stride[2]);
    return c;
  }
  size_t floats() const { return static_cast<size_t>(shape.taps() * shape.groups); }
};

/// [tap][channel] of `at(channel, index)`.
template <class At>
void pack_taps(const ConvShape& s, float* to, const At& at) {
  for (int64_t tap = 0; tap < s.taps(); ++tap)
    for (int64_t c = 0; c < s.groups; ++c)
      *to++ = at(static_cast<size_t>(c), static_cast<size_t>(c * s.filter_o + tap * s.filter_s));
}

}  // namespace

std::unique_ptr<Kernel> make_depthwise_f32(const KernelSpec& spec) {
  const auto& act = spec.attrs<ConvAttrs>().act;
  const auto plan = DepthwisePlan::make(spec);
  FloatOperand filter, bias;
  if (!plan || !make_float_operand(spec, 1, filter)) return nullptr;
  if (spec.has(2) && (!make_float_operand(spec, 2, bias) || bias.fp16)) return nullptr;
  const ConvShape& s = plan->shape;
  const Arg taps =
      packed_filter(*spec.constant(1), "taps of channels" + filter_order(s), plan->floats(),
                    [s](const float* from, float* to) { pack_taps(s, to, [&](size_t, size_t i) { return from[i]; }); });
  const Bounds bounds = activation_bounds(act);
  auto kernel = shader_kernel(shaders::depthwise_f32, plan->constants<shaders::Depthwise::Constants>(),
                              {input(0), taps, spec.has(2) ? float_arg(bias) : zeros_arg(s.groups), output(0)},
                              static_cast<uint64_t>(plan->geometry.n),
                              {.geometry = plan->geometry, .low = bounds.lo, .high = bounds.hi});
  return with_activation(std::move(kernel), act, s.batch * s.all_out() * s.out_pixels());
}

std::unique_ptr<Kernel> make_depthwise_i8(const KernelSpec& spec) {
  const auto plan = DepthwisePlan::make(spec);
  if (!plan || plan->shape.taps() > kExactProducts) return nullptr;
  const auto product = exact_quantized_gemm(spec, plan->shape);
  if (!product) return nullptr;
  std::string zeros;
  for (int32_t z : product->pair.w_zeros) zeros += Cat(" ", z);
  const Arg taps{[plan = *plan, filter = *spec.constant(1), w_zeros = product->pair.w_zeros, zeros](KernelRecorder& r) {
    return r.table(1, Cat("taps of channels", filter_order(plan.shape), " less", zeros), plan.floats() * sizeof(float),
                   [&](void* to) {
                     std::vector<int64_t> quantized(static_cast<size_t>(filter.elements()));
                     to_ints(filter, quantized.data());
                     pack_taps(plan.shape, static_cast<float*>(to),
                               [&](size_t c, size_t i) { return static_cast<float>(quantized[i] - w_zeros[c]); });
                   });
  }};
  const bool x_signed = product->pair.x_signed, fixed = product->fixed();
  const auto shader = x_signed ? (fixed ? shaders::depthwise_i8_fixed : shaders::depthwise_i8)
                               : (fixed ? shaders::depthwise_u8_fixed : shaders::depthwise_u8);
  auto constants = plan->constants<shaders::DepthwiseQuantized::Constants>();
  constants.rounding = product->rounding();
  return shader_kernel(shader, constants, {input(0), taps, product->table_arg(), output(0)},
                       static_cast<uint64_t>(plan->geometry.n),
                       {.geometry = plan->geometry, .requantization = product->push(product->pair.x_zero, 0)});
}

}  // namespace smelt::vulkan
