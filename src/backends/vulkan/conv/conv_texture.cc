// Convolutions and products of textures with constant weights, which the device packs.
#include <algorithm>
#include <cstdlib>

#include "backends/vulkan/conv/conv.h"
#include "backends/vulkan/core/activation.h"
#include "backends/vulkan/device/device.h"
#include "backends/vulkan/gemm/operand.h"
#include "backends/vulkan/layout/texture_kernel.h"
#include "base/cat.h"
#include "ops/common/operands.h"
#include "ops/conv/conv.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

/// The layout of weights_pack.comp.
struct PackPush {
  uint32_t n;
  int32_t all_out, taps, span;
  int32_t group_in, group_out;  ///< channels
  int32_t filter_g, filter_o, filter_i, filter_s;
};

/// The layout of conv_texture.comp.
struct ConvPush {
  GpuSize x, y;  ///< width, height, channels, batch
  std::array<int32_t, 2> kernel, stride, dilation, pad;
  GpuActivation act;
  int32_t group_in, group_out, span;
};

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

/// The parameters of a texture convolution besides its shape.
struct ConvPlan {
  uint32_t axes = 0;  ///< pixel_axes()
  bool transposed = false, inputs_first = false;
  Activation act = {};
};

/// Invocations below which outputs are not grouped further, to keep the device busy.
constexpr uint64_t kEnoughInvocations = 512;

class ConvTexture final : public TextureKernel {
 public:
  /// Precondition: fits(s).
  ConvTexture(const ImageLayout& x, const ImageLayout& y, const ConvPlan& plan, const ConvShape& s,
              const FloatOperand& weights, const Tensor& filter, bool fp16_multiply)
      : TextureKernel({x}, y),
        axes_(plan.axes),
        fp16_(weights.fp16),
        fp16_multiply_(fp16_multiply),
        depthwise_(is_plain_depthwise(s)),
        transposed_(plan.transposed),
        groups_(s.groups == 1 || depthwise_           ? Groups::kOne
                : s.c_in % 4 == 0 && s.c_out % 4 == 0 ? Groups::kWhole
                                                      : Groups::kOther) {
    if (weights.constant) filter_ = filter;
    raw_fp16_ = !weights.constant && filter.dtype() == DType::kF16;
    const int64_t span = depthwise_ ? 1 : widest(s);
    push_ = {{i32(s.in[2]), i32(s.in[1]), i32(s.all_in()), i32(s.batch)},
             {i32(s.out[2]), i32(s.out[1]), i32(s.all_out()), i32(s.batch)},
             {i32(s.kernel[2]), i32(s.kernel[1])},
             {i32(s.stride[2]), i32(s.stride[1])},
             {i32(s.dilation[2]), i32(s.dilation[1])},
             {i32(s.pad[2]), i32(s.pad[1])},
             gpu_activation(plan.act),
             i32(s.c_in),
             i32(s.c_out),
             i32(span)};
    const int64_t outs = (s.all_out() + 3) / 4;
    pack_ = {static_cast<uint32_t>(outs * s.taps() * (depthwise_ ? 1 : span * 4)),
             i32(s.all_out()),
             i32(s.taps()),
             i32(span),
             i32(s.c_in),
             i32(s.c_out),
             i32(plan.inputs_first ? s.c_in * s.filter_i : s.c_out * s.filter_o),
             i32(s.filter_o),
             i32(s.filter_i),
             i32(s.filter_s)};
    // Neighbours of a transposed one seldom meet the same taps.
    pixels_ = transposed_ ? 1 : s.out[2] >= 4 ? 4 : s.out[2] >= 2 ? 2 : 1;
    // The more outputs share a texel that was read the better, as long as there are invocations enough.
    if (s.groups == 1)
      while (quads_ < 4 && quads_ * 2 <= outs && y.count() / (pixels_ * quads_ * 2) >= kEnoughInvocations) quads_ *= 2;
  }
  static bool is_plain_depthwise(const ConvShape& s) { return s.depthwise() && s.c_out == 1; }
  /// True for 2-D shapes within the shader's limits.
  static bool fits(const ConvShape& s) {
    if (!s.planar()) return false;
    for (int d = 1; d < 3; ++d)
      if (s.dilation[d] > 1 << 14 || s.kernel[d] > 1 << 10 || std::abs(s.pad[d]) > 1 << 20 || s.stride[d] > 1 << 12)
        return false;
    if (s.all_in() > 1 << 24 || s.all_out() > 1 << 24) return false;
    const int64_t ins = is_plain_depthwise(s) ? 1 : widest(s);
    return s.taps() * ins <= kMaxLoopIterations && (s.all_out() + 3) / 4 * s.taps() * ins * 4 < int64_t{1} << 26;
  }
  /// Bytes of the packed filter.
  size_t packed_bytes() const { return size_t{pack_.n} * (fp16_ ? 8 : 16); }
  void set_bias(const FloatOperand& bias) { bias_ = bias; }
  bool reads(size_t i) const override { return i < 2 || (i == 2 && bias_); }
  bool prefers_textures() const override { return true; }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding filter, packed_filter(r));
    Binding bias = filter;
    if (bias_) {
      SMELT_ASSIGN(bias, bias_->bind(r));
    }
    const uint64_t slices = (static_cast<uint64_t>(push_.y[0]) + pixels_ - 1) / pixels_;
    return dispatch(r, fp16_multiply_ ? "conv_fp16_multiply" : "conv",
                    {pixels_, axes_, bias_ ? 1u : 0u, fp16_ ? 1u : 0u, depthwise_ ? 1u : 0u, quads_,
                     static_cast<uint32_t>(groups_), transposed_ ? 1u : 0u},
                    {x, filter, bias, r.output(0)},
                    slices * static_cast<uint64_t>(push_.y[1]) *
                        ((static_cast<uint64_t>(push_.y[2]) + 3) / 4 + quads_ - 1) / quads_ *
                        static_cast<uint64_t>(push_.y[3]),
                    push_);
  }

 private:
  Result<Binding> packed_filter(KernelRecorder& r) const {
    const PackPush& p = pack_;
    const std::string key = Cat(fp16_ ? "halves " : "fours ", p.group_in, " ", p.group_out, " ", p.all_out, " ", p.taps,
                                " ", p.filter_g, " ", p.filter_o, " ", p.filter_i, " ", p.filter_s);
    const auto pack = [&](Recorder& to, const Binding& raw, const Binding& packed) {
      Dispatch d{raw_fp16_ ? "weights_pack_f16" : "weights_pack_f32",
                 {kWidth, fp16_ ? 1u : 0u, depthwise_ ? 1u : 0u},
                 {raw, packed}};
      set_grid(d, p.n, kWidth);
      return to.dispatch(d, p);
    };
    if (!filter_.defined()) return r.packed(1, key, packed_bytes(), pack);
    Status status;
    const auto floats = static_cast<size_t>(filter_.elements()) * sizeof(float);
    const auto read = [&](void* to) { status = real_values(filter_, static_cast<float*>(to)); };
    const auto packed = r.packed(1, key, floats, read, packed_bytes(), pack);
    SMELT_TRY(status);
    return packed;
  }

  uint32_t axes_, pixels_ = 1, quads_ = 1;
  bool fp16_, fp16_multiply_, raw_fp16_ = false, depthwise_, transposed_;
  Groups groups_;
  Tensor filter_;  ///< set if the host dequantizes it before packing
  ConvPush push_;
  PackPush pack_;
  std::optional<FloatOperand> bias_;
};

std::unique_ptr<Kernel> make(const KernelSpec& spec, const ConvShape& s, const ConvPlan& plan) {
  const Tensor* filter = spec.constant(1);
  if (!filter || !unquantized_floats(spec, {0}, {0}) || !ConvTexture::fits(s)) return nullptr;
  FloatOperand weights;
  if (!make_float_operand(spec, 1, weights)) return nullptr;
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y || spec.constant(0)) return nullptr;
  weights.fp16 = weights.fp16 || spec.fp16;  // packed so
  auto kernel = std::make_unique<ConvTexture>(*x, *y, plan, s, weights, *filter, spec.fp16);
  if (std::max(kernel->packed_bytes(), filter->bytes()) > spec.device.max_binding()) return nullptr;
  if (spec.has(2)) {
    FloatOperand bias;
    if (!make_f32_operand(spec, 2, bias)) return nullptr;
    kernel->set_bias(bias);
  }
  return kernel;
}

}  // namespace

std::unique_ptr<Kernel> make_conv_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto s = ConvShape::make(spec);
  if (!s || attrs.hybrid || (spec.outputs[0].shape.rank() == 3 && s->in[1] != 1)) return nullptr;
  const auto axes = pixel_axes(spec.form, spec.outputs[0].shape.rank(), s->channels_last);
  return axes ? make(spec, *s, {.axes = *axes, .act = attrs.act}) : nullptr;
}

std::unique_ptr<Kernel> make_conv_transpose_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvTransposeAttrs>();
  const auto s = transposed_shape(spec);
  if (!s || (spec.outputs[0].shape.rank() == 3 && s->in[1] != 1)) return nullptr;
  const auto axes = pixel_axes(spec.form, spec.outputs[0].shape.rank(), s->channels_last);
  if (!axes) return nullptr;
  return make(
      spec, *s,
      {.axes = *axes, .transposed = true, .inputs_first = attrs.filter == FilterLayout::kIOS, .act = attrs.act});
}

/// The rows are pixels of a channels-last image, the weights a filter of one tap.
std::unique_ptr<Kernel> make_matmul_constant_texture(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (attrs.alpha != 1 || attrs.beta != 1 || attrs.hybrid || attrs.transpose_a || attrs.trans_batch_a ||
      spec.form.packing != Packing::kWidth || spec.inputs[1].shape.rank() != 2 || x.rank() != y.rank() ||
      x.rank() < 2 || x.rank() > 4)
    return nullptr;
  const auto m = MatMulShape::make(spec);
  if (!m || m->k == 0 || m->g.a.column_stride != 1 || x.back() != m->k || y.back() != m->n) return nullptr;
  for (int d = 0; d + 1 < x.rank(); ++d)
    if (x[d] != y[d]) return nullptr;
  if (spec.has(2) && !m->is_row(spec.inputs[2].shape)) return nullptr;
  ConvShape s;
  s.c_in = m->k;
  s.c_out = m->n;
  s.in[2] = s.out[2] = x[x.rank() - 2];
  if (x.rank() > 2) s.in[1] = s.out[1] = x[x.rank() - 3];
  if (x.rank() > 3) s.batch = x[0];
  s.channels_last = true;
  s.filter_o = m->g.b.column_stride;
  s.filter_i = m->g.b.row_stride;
  return make(spec, s, {.axes = 1, .act = attrs.act});
}

}  // namespace smelt::vulkan
