// Convolutions, and matrix products as 1x1 convolutions, with constant filters that the host packs.
#include <algorithm>
#include <cstring>
#include <vector>

#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/gemm/packed.h"
#include "backends/vulkan/gemm/quantized_gemm.h"
#include "backends/vulkan/gemm/quantized_weights.h"
#include "base/error.h"
#include "ops/common/operands.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

constexpr int64_t kExactProducts = 256;  ///< of 8-bit values: float32 holds their sum
constexpr int64_t kTile = kPackedTile;

/// The shape of a float32 convolution with a constant filter, and its operands.
std::optional<ConvShape> float_conv_shape(const KernelSpec& spec, FloatOperand& filter, FloatOperand& bias) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  if (attrs.hybrid || !unquantized_floats(spec, {0}, {0}) || spec.outputs[0].dtype != DType::kF32 || !spec.constant(1))
    return std::nullopt;
  const auto shape = conv_2d_shape(spec);
  if (!shape) return std::nullopt;
  if (!make_float_operand(spec, 1, filter)) return std::nullopt;
  if (spec.has(2) && (!make_float_operand(spec, 2, bias) || bias.fp16)) return std::nullopt;
  return shape;
}

/// The dequantized filter.
Result<std::vector<float>> real_filter(const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.elements()));
  SMELT_TRY(real_values(t, values.data()));
  return values;
}

/// A table that `pack(filter, to)` makes of the filter.
template <class Pack>
Result<Binding> packed_filter(KernelRecorder& r, const Tensor& filter, const std::string& key, size_t floats,
                              const Pack& pack) {
  Status status;
  const auto binding = r.table(1, key, floats * sizeof(float), [&](void* to) {
    auto values = real_filter(filter);
    if (values.ok())
      pack(values->data(), static_cast<float*>(to));
    else
      status = values.error();
  });
  SMELT_TRY(status);
  return binding;
}

/// Zeros in place of an absent bias.
Result<Binding> no_bias(KernelRecorder& r, int64_t channels) {
  const size_t bytes = static_cast<size_t>(channels) * sizeof(float);
  return r.table(Cat("zeros ", channels), bytes, [&](void* to) { std::memset(to, 0, bytes); });
}

/// The shaders of this file clamp to bounds; any other activation runs in place behind them.
Status activate_after(KernelRecorder& r, const Activation& act, uint32_t n) {
  const GpuActivation a = gpu_activation(act);
  if (a.code < 2) return Ok();
  struct Push {
    uint32_t n;
    GpuActivation act;
  };
  Dispatch d{"activate_f32", {kWidth, a.code}, {r.output(0)}};
  set_grid(d, n, kWidth);
  return r.dispatch(d, Push{n, a});
}

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

class PackedConv final : public Kernel {
 public:
  static constexpr uint32_t kLanes = 8;
  PackedConv(const ConvShape& shape, const Activation& act, const Tensor& filter)
      : shape_(shape), geometry_(packed_geometry(shape)), act_(act), filter_(filter) {
    vec4_ = shape.channels_last && shape.c_in % 4 == 0 && shape.c_out % 4 == 0;
    pixels_ = shape.out_pixels() > kLanes ? 4 : 1;
  }
  /// `bits`: of an element of the packed filter.
  static bool suits(const KernelSpec& spec, const ConvShape& s, int bits) {
    return spec.device.info().type == "CPU" && spec.device.info().subgroup_size == kLanes && s.c_out >= 4 &&
           s.k() >= 8 && s.taps() * ((s.c_in + 3) / 4 * 17 / 16 + 4) <= kMaxLoopIterations &&
           s.batch * s.groups <= 65535 && s.out_pixels() / kLanes <= 65534 && s.c_out / kTile <= 65534 &&
           elements(s) * static_cast<size_t>(bits) / 8 <= spec.device.max_binding();
  }
  /// Elements of the packed filter.
  static size_t elements(const ConvShape& s) {
    return static_cast<size_t>(s.groups * ((s.c_out + kTile - 1) / kTile) * kTile * s.taps() * ((s.c_in + 3) / 4 * 4));
  }
  void set_bias(const FloatOperand& bias) { bias_ = bias; }
  void set_quantized(const QuantizedWeights& weights) { quantized_ = weights; }
  void set_integers(QuantizedGemm product) { integers_ = std::move(product); }
  bool reads(size_t i) const override { return i == 0 || (i == 2 && bias_.has_value()); }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding filter, filter_binding(r));
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding channels, integers_ ? integers_->table(r)
                                         : bias_   ? bias_->bind(r)
                                                   : no_bias(r, shape_.all_out()));
    const int64_t block = quantized_ ? (quantized_->block + 3) / 4 : 1;
    const std::string name = shader();
    Dispatch d{name.c_str(), {kLanes, static_cast<uint32_t>(block)}, {x, filter, channels, r.output(0)}};
    if (fixed()) d.constants.push_back(integers_->rounding());
    if (quantized_) {
      SMELT_ASSIGN(const Binding scales, scales_binding(r));
      d.buffers.push_back(scales);
    }
    d.x = static_cast<uint32_t>((shape_.out_pixels() + kLanes * pixels_ - 1) / (kLanes * pixels_));
    d.y = static_cast<uint32_t>(geometry_.tiles);
    d.z = static_cast<uint32_t>(shape_.batch * shape_.groups);
    if (!integers_) {
      const Bounds bounds = activation_bounds(act_);
      SMELT_TRY(r.dispatch(d, RealPush{geometry_, bounds.lo, bounds.hi}));
      return activate_after(r, act_, static_cast<uint32_t>(shape_.batch * shape_.all_out() * shape_.out_pixels()));
    }
    const RequantParams& q = integers_->requant;
    return r.dispatch(d, StoredPush{geometry_, {integers_->pair.x_zero, 0, q.zero, q.low, q.high}});
  }

 private:
  struct RealPush {
    PackedGeometry g;
    float low, high;
  };
  struct StoredPush {
    PackedGeometry g;
    IntegerPush q;
  };
  bool fixed() const { return integers_ && integers_->requant.rounding != Rounding::kFloatHalfEven; }
  std::string shader() const {
    const char* kind = "f32";
    if (quantized_) kind = quantized_->bits == 4 ? "f32_w4" : "f32_w8";
    if (integers_) kind = integers_->pair.x_signed ? "i8" : "u8";
    return Cat("conv_packed_", vec4_ ? "vec4_" : "", kind, fixed() ? "_fixed_" : "_", pixels_);
  }
  Result<Binding> filter_binding(KernelRecorder& r) const {
    const size_t n = elements(shape_);
    if (quantized_) return quantized_binding(r, n);
    if (!integers_)
      return packed_filter(r, filter_, Cat("tiles of 16 in ", shape_.groups), n,
                           [&](const float* from, float* to) { pack_tiles(shape_, from, to); });
    return r.table(1, Cat("integer tiles of 16 in ", shape_.groups), n, [&](void* to) {
      std::vector<int64_t> quantized(static_cast<size_t>(filter_.elements()));
      to_ints(filter_, quantized.data());
      std::vector<int8_t> values(quantized.size());
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<int8_t>(integers_->signed_weight(quantized[i]));
      pack_tiles(shape_, values.data(), static_cast<int8_t*>(to));
    });
  }
  Result<Binding> quantized_binding(KernelRecorder& r, size_t n) const {
    const auto bytes = n * static_cast<size_t>(quantized_->bits) / 8;
    return r.table(1, Cat("quantized tiles of 16, ", quantized_->bits, " bits"), bytes, [&](void* to) {
      const std::vector<int8_t> values = quantized_->values(filter_, shape_);
      std::vector<int8_t> packed(n);
      pack_tiles(shape_, values.data(), packed.data());
      auto* out = static_cast<uint8_t*>(to);
      if (quantized_->bits == 8)
        std::memcpy(out, packed.data(), n);
      else
        for (size_t i = 0; i < n; i += 2) out[i / 2] = static_cast<uint8_t>((packed[i] + 8) | (packed[i + 1] + 8) << 4);
    });
  }
  Result<Binding> scales_binding(KernelRecorder& r) const {
    const int64_t blocks = quantized_->blocks(shape_);
    const auto n = static_cast<size_t>(geometry_.tiles * blocks * kTile);
    return r.table(1, "scales of tiles of 16", n * sizeof(float), [&](void* to) {
      const Quantization& q = *filter_.quant();
      auto* out = static_cast<float*>(to);
      for (int64_t tile = 0; tile < geometry_.tiles; ++tile)
        for (int64_t b = 0; b < blocks; ++b)
          for (int64_t t = 0; t < kTile; ++t) {
            const int64_t o = tile * kTile + t;
            *out++ = o < shape_.c_out ? q.scale(quantized_->parameter(q, shape_, o, b * quantized_->block)) : 0.0f;
          }
    });
  }
  ConvShape shape_;
  PackedGeometry geometry_;
  Activation act_;
  Tensor filter_;
  std::optional<FloatOperand> bias_;
  std::optional<QuantizedGemm> integers_;
  std::optional<QuantizedWeights> quantized_;
  bool vec4_;
  uint32_t pixels_;
};

/// The layout of depthwise.comp.
struct DepthwiseGeometry {
  int32_t x_size[2], y_size[2];
  int32_t kernel_y, stride_y, pad[2];
  int32_t quads, n;
};

class Depthwise final : public Kernel {
 public:
  Depthwise(const ConvShape& s, const Activation& act, const Tensor& filter, bool software)
      : shape_(s), act_(act), filter_(filter), width_(software ? 8 : kWidth) {
    pixels_ = s.out[2] >= 4 ? 4 : static_cast<uint32_t>(s.out[2]);
    geometry_ = {{i32(s.in[1]), i32(s.in[2])},
                 {i32(s.out[1]), i32(s.out[2])},
                 i32(s.kernel[1]),
                 i32(s.stride[1]),
                 {i32(s.pad[1]), i32(s.pad[2])},
                 i32(s.groups / 4),
                 i32(s.groups / 4 * ((s.out[2] + pixels_ - 1) / pixels_) * s.out[1] * s.batch)};
  }
  static bool suits(const ConvShape& s) {
    return s.channels_last && s.depthwise() && s.c_out == 1 && s.groups % 4 == 0 && s.kernel[2] <= 7 &&
           s.stride[2] <= 2 && s.dilation[1] == 1 && s.dilation[2] == 1;
  }
  void set_bias(const FloatOperand& bias) { bias_ = bias; }
  void set_integers(QuantizedGemm product) { integers_ = std::move(product); }
  bool reads(size_t i) const override { return i == 0 || (i == 2 && bias_.has_value()); }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding filter, integers_ ? integer_taps(r) : real_taps(r));
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding channels, integers_ ? integers_->table(r)
                                         : bias_   ? bias_->bind(r)
                                                   : no_bias(r, shape_.groups));
    const bool fixed = integers_ && integers_->requant.rounding != Rounding::kFloatHalfEven;
    const char* kind = !integers_ ? "f32" : integers_->pair.x_signed ? "i8" : "u8";
    const std::string name = Cat("depthwise_", kind, fixed ? "_fixed" : "");
    Dispatch d{name.c_str(),
               {width_, pixels_, static_cast<uint32_t>(shape_.kernel[2]), static_cast<uint32_t>(shape_.stride[2])},
               {x, filter, channels, r.output(0)}};
    if (fixed) d.constants.push_back(integers_->rounding());
    set_grid(d, static_cast<uint64_t>(geometry_.n), width_);
    if (integers_) {
      const RequantParams& q = integers_->requant;
      return r.dispatch(d, IntegersPush{geometry_, {integers_->pair.x_zero, 0, q.zero, q.low, q.high}});
    }
    const Bounds bounds = activation_bounds(act_);
    SMELT_TRY(r.dispatch(d, RealPush{geometry_, bounds.lo, bounds.hi}));
    return activate_after(r, act_, static_cast<uint32_t>(shape_.batch * shape_.all_out() * shape_.out_pixels()));
  }

 private:
  struct RealPush {
    DepthwiseGeometry g;
    float low, high;
  };
  struct IntegersPush {
    DepthwiseGeometry g;
    IntegerPush q;
  };
  /// [tap][channel] of `at(channel, index)`.
  template <class At>
  void pack(float* to, const At& at) const {
    for (int64_t tap = 0; tap < shape_.taps(); ++tap)
      for (int64_t c = 0; c < shape_.groups; ++c)
        *to++ = at(static_cast<size_t>(c), static_cast<size_t>(c * shape_.filter_o + tap * shape_.filter_s));
  }
  size_t floats() const { return static_cast<size_t>(shape_.taps() * shape_.groups); }
  Result<Binding> real_taps(KernelRecorder& r) const {
    return packed_filter(r, filter_, "taps of channels", floats(),
                         [&](const float* from, float* to) { pack(to, [&](size_t, size_t i) { return from[i]; }); });
  }
  /// Less their zero points.
  Result<Binding> integer_taps(KernelRecorder& r) const {
    std::string zeros;
    for (int32_t z : integers_->pair.w_zeros) zeros += Cat(" ", z);
    return r.table(1, Cat("taps of channels less", zeros), floats() * sizeof(float), [&](void* to) {
      std::vector<int64_t> quantized(static_cast<size_t>(filter_.elements()));
      to_ints(filter_, quantized.data());
      pack(static_cast<float*>(to),
           [&](size_t c, size_t i) { return static_cast<float>(quantized[i] - integers_->pair.w_zeros[c]); });
    });
  }

  ConvShape shape_;
  DepthwiseGeometry geometry_;
  Activation act_;
  Tensor filter_;
  std::optional<FloatOperand> bias_;
  std::optional<QuantizedGemm> integers_;
  uint32_t width_, pixels_;
};

}  // namespace

std::unique_ptr<Kernel> make_conv_packed_f32(const KernelSpec& spec) {
  FloatOperand filter, bias;
  const auto s = float_conv_shape(spec, filter, bias);
  if (!s) return nullptr;
  const int rank = spec.inputs[1].shape.rank();
  const auto quantized =
      QuantizedWeights::make(spec.device, spec.inputs[1], *s, filter_output_axis(spec.attrs<ConvAttrs>(), rank), -1);
  if ((spec.fp16 && !quantized) || !PackedConv::suits(spec, *s, quantized ? quantized->bits : 32)) return nullptr;
  auto kernel = std::make_unique<PackedConv>(*s, spec.attrs<ConvAttrs>().act, *spec.constant(1));
  if (spec.has(2)) kernel->set_bias(bias);
  if (quantized) kernel->set_quantized(*quantized);
  return kernel;
}

std::unique_ptr<Kernel> make_matmul_packed_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (attrs.alpha != 1 || attrs.beta != 1 || !unquantized_floats(spec, {0}, {0}) ||
      spec.outputs[0].dtype != DType::kF32)
    return nullptr;
  const auto s = matmul_as_conv(spec, attrs);
  FloatOperand weights, c;
  if (!s || !make_float_operand(spec, 1, weights)) return nullptr;
  if (spec.has(2) && (!make_float_operand(spec, 2, c) || c.fp16)) return nullptr;
  const int o_axis = attrs.transpose_b ? 0 : 1;
  const auto quantized = QuantizedWeights::make(spec.device, spec.inputs[1], *s, o_axis, 1 - o_axis);
  if ((spec.fp16 && !quantized) || !PackedConv::suits(spec, *s, quantized ? quantized->bits : 32)) return nullptr;
  auto kernel = std::make_unique<PackedConv>(*s, attrs.act, *spec.constant(1));
  if (spec.has(2)) kernel->set_bias(c);
  if (quantized) kernel->set_quantized(*quantized);
  return kernel;
}

std::unique_ptr<Kernel> make_matmul_packed_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const auto s = matmul_as_conv(spec, attrs);
  if (!s || !PackedConv::suits(spec, *s, 8)) return nullptr;
  auto product = exact_quantized_gemm(spec, attrs, *s);
  if (!product) return nullptr;
  auto kernel = std::make_unique<PackedConv>(*s, Activation{}, *spec.constant(1));
  kernel->set_integers(std::move(*product));
  return kernel;
}

std::unique_ptr<Kernel> make_conv_packed_i8(const KernelSpec& spec) {
  const auto s = conv_2d_shape(spec);
  if (!s || !spec.constant(1) || !PackedConv::suits(spec, *s, 8)) return nullptr;
  auto product = exact_quantized_gemm(spec, *s);
  if (!product) return nullptr;
  auto kernel = std::make_unique<PackedConv>(*s, Activation{}, *spec.constant(1));
  kernel->set_integers(std::move(*product));
  return kernel;
}

std::unique_ptr<Kernel> make_depthwise_f32(const KernelSpec& spec) {
  FloatOperand filter, bias;
  const auto s = float_conv_shape(spec, filter, bias);
  if (!s || !Depthwise::suits(*s)) return nullptr;
  const Tensor* b = spec.has(2) ? spec.constant(2) : nullptr;
  if (spec.has(2) && !b) return nullptr;
  auto kernel =
      std::make_unique<Depthwise>(*s, spec.attrs<ConvAttrs>().act, *spec.constant(1), spec.device.info().type == "CPU");
  if (b) kernel->set_bias(bias);
  return kernel;
}

std::unique_ptr<Kernel> make_depthwise_i8(const KernelSpec& spec) {
  const auto s = conv_2d_shape(spec);
  if (!s || !spec.constant(1) || !Depthwise::suits(*s) || s->taps() > kExactProducts) return nullptr;
  auto product = exact_quantized_gemm(spec, *s);
  if (!product) return nullptr;
  auto kernel = std::make_unique<Depthwise>(*s, Activation{}, *spec.constant(1), spec.device.info().type == "CPU");
  kernel->set_integers(std::move(*product));
  return kernel;
}

}  // namespace smelt::vulkan
