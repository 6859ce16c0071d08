#include "backends/vulkan/gemm/packed_kernel.h"

#include <cstring>
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/packed.h"
#include "shaders/activate.h"
#include "shaders/conv_packed.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kTile = kPackedTile;
constexpr uint32_t kLanes = 8;

/// [group][tile][tap][4 input channels][4][16], zero where there is no channel.
template <class T>
void pack_tiles(const ConvShape& s, const T* filter, T* to) {
  const int64_t tiles = (s.c_out + kTile - 1) / kTile, chunks = (s.c_in + 3) / 4;
  for (int64_t g = 0; g < s.groups; ++g)
    for (int64_t tile = 0; tile < tiles; ++tile)
      for (int64_t tap = 0; tap < s.taps(); ++tap)
        for (int64_t i = 0; i < chunks * 4; ++i)
          for (int64_t t = 0; t < kTile; ++t) {
            const int64_t o = tile * kTile + t;
            *to++ = i < s.c_in && o < s.c_out
                        ? filter[(g * s.c_out + o) * s.filter_o + i * s.filter_i + tap * s.filter_s]
                        : T{};
          }
}

/// Elements of the packed filter.
size_t packed_elements(const ConvShape& s) {
  return static_cast<size_t>(s.groups * ((s.c_out + kTile - 1) / kTile) * kTile * s.taps() * ((s.c_in + 3) / 4 * 4));
}

/// True if the shader can have the shape. `bits`: of an element of the packed filter.
bool suits(const Device& device, const ConvShape& s, int bits) {
  return s.c_out >= 4 && s.k() >= 8 && s.taps() * ((s.c_in + 3) / 4 * 17 / 16 + 4) <= kMaxLoopIterations &&
         s.batch * s.groups <= 65535 && s.out_pixels() / kLanes <= 65534 && s.c_out / kTile <= 65534 &&
         packed_elements(s) * static_cast<size_t>(bits) / 8 <= device.max_binding();
}

/// The variant of conv_packed.comp for the shape and its dispatch grid.
template <class Interface>
struct Dispatched {
  shaders::Variant<Interface> shader;
  Grid grid;
  Dispatched(const ConvShape& s, const std::string& kind) : shader{} {
    const bool vec4 = s.channels_last && s.c_in % 4 == 0 && s.c_out % 4 == 0;
    const uint32_t pixels = s.out_pixels() > kLanes ? 4 : 1, across = kLanes * pixels;
    shader = *shaders::find_variant<Interface>(Cat("conv_packed_", vec4 ? "vec4_" : "", kind, '_', pixels));
    grid = {u32((s.out_pixels() + across - 1) / across), u32((s.c_out + kTile - 1) / kTile), u32(s.batch * s.groups)};
  }
};

/// Constant input 1 in 8 or 4 bits, less its zero points.
Arg quantized_filter(const ConvShape& s, const Tensor& filter, const QuantizedWeights& weights) {
  return {[=](KernelRecorder& r) {
    const size_t n = packed_elements(s);
    return r.table(1, Cat("quantized tiles of 16, bits ", weights.bits, filter_order(s)),
                   n * static_cast<size_t>(weights.bits) / 8, [&](void* to) {
                     const std::vector<int8_t> values = weights.values(filter, s);
                     std::vector<int8_t> packed(n);
                     pack_tiles(s, values.data(), packed.data());
                     auto* out = static_cast<uint8_t*>(to);
                     if (weights.bits == 8)
                       std::memcpy(out, packed.data(), n);
                     else
                       for (size_t i = 0; i < n; i += 2)
                         out[i / 2] = static_cast<uint8_t>((packed[i] + 8) | (packed[i + 1] + 8) << 4);
                   });
  }};
}

/// Its scales: [tile][block][16].
Arg quantized_scales(const ConvShape& s, const Tensor& filter, const QuantizedWeights& weights) {
  return {[=](KernelRecorder& r) {
    const int64_t blocks = weights.blocks(s), tiles = (s.c_out + kTile - 1) / kTile;
    return r.table(1, "scales of tiles of 16" + filter_order(s),
                   static_cast<size_t>(tiles * blocks * kTile) * sizeof(float), [&](void* to) {
                     const Quantization& q = *filter.quant();
                     auto* out = static_cast<float*>(to);
                     for (int64_t tile = 0; tile < tiles; ++tile)
                       for (int64_t b = 0; b < blocks; ++b)
                         for (int64_t o = tile * kTile; o < (tile + 1) * kTile; ++o)
                           *out++ = o < s.c_out ? q.scale(weights.parameter(q, s, o, b * weights.block)) : 0.0f;
                   });
  }};
}

}  // namespace

std::unique_ptr<Kernel> with_activation(std::unique_ptr<Kernel> product, const Activation& act, int64_t n) {
  const GpuActivation a = gpu_activation(act);
  if (a.code <= shaders::kActBounds) return product;
  return in_sequence(std::move(product),
                     shader_kernel(shaders::activate_f32, {.act = a.code}, {output(0)}, static_cast<uint64_t>(n),
                                   {.n = u32(n), .act = a.code, .a = a.a, .b = a.b}));
}

std::unique_ptr<Kernel> packed_kernel_f32(const KernelSpec& spec, const ConvShape& s, const Activation& act, int o_axis,
                                          int i_axis) {
  FloatOperand filter, bias;
  if (!make_float_operand(spec, 1, filter)) return nullptr;
  if (spec.has(2) && (!make_float_operand(spec, 2, bias) || bias.fp16)) return nullptr;
  const auto quantized = QuantizedWeights::make(spec.device, spec.inputs[1], s, o_axis, i_axis);
  if ((spec.fp16 && !quantized) || !suits(spec.device, s, quantized ? quantized->bits : 32)) return nullptr;
  const Tensor& weights = *spec.constant(1);
  const Arg channels = spec.has(2) ? float_arg(bias) : zeros_arg(s.all_out());
  const Bounds bounds = activation_bounds(act);
  const shaders::ConvPacked::Push push{.geometry = packed_geometry(s), .low = bounds.lo, .high = bounds.hi};
  std::unique_ptr<Kernel> kernel;
  if (quantized) {
    const Dispatched<shaders::ConvPacked> d(s, quantized->bits == 4 ? "f32_w4" : "f32_w8");
    kernel = shader_kernel(d.shader, {.width = kLanes, .block = i32((quantized->block + 3) / 4)},
                           {input(0), quantized_filter(s, weights, *quantized), channels, output(0),
                            quantized_scales(s, weights, *quantized)},
                           d.grid, push);
  } else {
    const Dispatched<shaders::ConvPacked> d(s, "f32");
    const Arg packed = packed_filter(weights, "tiles of 16" + filter_order(s), packed_elements(s),
                                     [s](const float* from, float* to) { pack_tiles(s, from, to); });
    kernel = shader_kernel(d.shader, {.width = kLanes}, {input(0), packed, channels, output(0)}, d.grid, push);
  }
  return with_activation(std::move(kernel), act, s.batch * s.all_out() * s.out_pixels());
}

std::unique_ptr<Kernel> packed_kernel_i8(const KernelSpec& spec, const ConvShape& s,
                                         const std::optional<QuantizedGemm>& product) {
  if (!product || !suits(spec.device, s, 8)) return nullptr;
  const Tensor& filter = *spec.constant(1);
  const Arg weights{[s, filter, q = *product](KernelRecorder& r) {
    return r.table(1, "integer tiles of 16" + filter_order(s), packed_elements(s), [&](void* to) {
      std::vector<int64_t> quantized(static_cast<size_t>(filter.elements()));
      to_ints(filter, quantized.data());
      std::vector<int8_t> values(quantized.size());
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int8_t>(q.signed_weight(quantized[i]));
      pack_tiles(s, values.data(), static_cast<int8_t*>(to));
    });
  }};
  const Dispatched<shaders::ConvPackedQuantized> d(
      s, Cat(product->pair.x_signed ? "i8" : "u8", product->fixed() ? "_fixed" : ""));
  return shader_kernel(d.shader, {.width = kLanes, .rounding = product->rounding()},
                       {input(0), weights, product->table_arg(), output(0)}, d.grid,
                       {.geometry = packed_geometry(s), .requantization = product->push(product->pair.x_zero, 0)});
}

}  // namespace smelt::vulkan
