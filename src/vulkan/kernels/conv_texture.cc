// Convolutions and products of textures, with filters that the device packs.
#include <algorithm>
#include <cstdlib>

#include "base/cat.h"
#include "ops/conv/conv.h"
#include "ops/conv/conv_shape.h"
#include "ops/matmul/matmul_shape.h"
#include "vulkan/activation.h"
#include "vulkan/device.h"
#include "vulkan/kernels/texture.h"
#include "vulkan/kernels/weights.h"

namespace smelt::vulkan {
namespace {

int32_t i32(int64_t v) { return static_cast<int32_t>(v); }

/// The layout of shaders/weights_pack.comp.
struct PackPush {
  uint32_t n;
  int32_t c_in, c_out, taps;
  int32_t filter_o, filter_i, filter_s;
};

/// The layout of shaders/conv_texture.comp.
struct ConvPush {
  GpuSize x, y;  ///< width, height, channels, batch
  std::array<int32_t, 2> kernel, stride, dilation, pad;
  GpuActivation act;
};

/// Invocations that keep a device busy.
constexpr uint64_t kEnough = 512;

class ConvTexture final : public TextureKernel {
 public:
  /// Precondition: fits(s).
  ConvTexture(const ImageLayout& x, const ImageLayout& y, uint32_t axes, const ConvShape& s, bool half,
              const Activation& act)
      : TextureKernel({x}, y), axes_(axes), half_(half), depthwise_(s.depthwise()) {
    push_ = {{i32(s.in[2]), i32(s.in[1]), i32(s.all_in()), i32(s.batch)},
             {i32(s.out[2]), i32(s.out[1]), i32(s.all_out()), i32(s.batch)},
             {i32(s.kernel[2]), i32(s.kernel[1])},
             {i32(s.stride[2]), i32(s.stride[1])},
             {i32(s.dilation[2]), i32(s.dilation[1])},
             {i32(s.pad[2]), i32(s.pad[1])},
             gpu_activation(act)};
    const int64_t outs = (s.all_out() + 3) / 4, ins = depthwise_ ? 1 : (s.c_in + 3) / 4 * 4;
    pack_ = {static_cast<uint32_t>(outs * s.taps() * ins),
             i32(s.c_in),
             i32(s.all_out()),
             i32(s.taps()),
             i32(s.filter_o),
             i32(s.filter_i),
             i32(s.filter_s)};
    pixels_ = s.out[2] >= 4 ? 4 : s.out[2] >= 2 ? 2 : 1;
    // The more outputs share a texel that was read the better, as long as there are invocations enough.
    if (!depthwise_)
      while (quads_ < 4 && quads_ * 2 <= outs && y.count() / (pixels_ * quads_ * 2) >= kEnough) quads_ *= 2;
  }
  /// Planes, of one group or one filter a channel, within the limits of the shader.
  static bool fits(const ConvShape& s) {
    if (!s.planar()) return false;
    if (s.groups != 1 && !(s.depthwise() && s.c_out == 1)) return false;
    for (int d = 1; d < 3; ++d)
      if (s.dilation[d] > 1 << 14 || s.kernel[d] > 1 << 10 || std::abs(s.pad[d]) > 1 << 20 || s.stride[d] > 1 << 12)
        return false;
    const int64_t ins = (s.c_in + 3) / 4;
    return s.taps() * ins <= kMaxRounds && (s.all_out() + 3) / 4 * s.taps() * ins * 4 < int64_t{1} << 26;
  }
  /// What the filter takes as it is packed.
  size_t packed_bytes() const { return size_t{pack_.n} * (half_ ? 8 : 16); }
  void set_bias(const RealOperand& bias) { bias_ = bias; }
  bool reads(size_t i) const override { return i < 2 || (i == 2 && bias_); }
  bool prefers_textures() const override { return true; }

  Status record(KernelRecorder& r) const override {
    SMELT_ASSIGN(const Binding x, r.input(0));
    SMELT_ASSIGN(const Binding filter, packed_filter(r));
    Binding bias = filter;
    if (bias_) {
      SMELT_ASSIGN(bias, bias_->bind(r));
    }
    const uint64_t pieces = (static_cast<uint64_t>(push_.y[0]) + pixels_ - 1) / pixels_;
    return dispatch(r, "conv", {pixels_, axes_, bias_ ? 1u : 0u, half_ ? 1u : 0u, depthwise_ ? 1u : 0u, quads_},
                    {x, filter, bias, r.output(0)},
                    pieces * static_cast<uint64_t>(push_.y[1]) *
                        ((static_cast<uint64_t>(push_.y[2]) + 3) / 4 + quads_ - 1) / quads_ *
                        static_cast<uint64_t>(push_.y[3]),
                    push_);
  }

 private:
  Result<Binding> packed_filter(KernelRecorder& r) const {
    const PackPush& p = pack_;
    const std::string key = Cat("fours ", p.c_in, " ", p.c_out, " ", p.taps, " ", p.filter_o, " ", p.filter_i, " ",
                                p.filter_s, depthwise_ ? " depthwise" : "");
    return r.packed(1, key, packed_bytes(), [&](Recorder& to, const Binding& raw, const Binding& packed) {
      Dispatch d{half_ ? "weights_pack_f16" : "weights_pack_f32",
                 {kWidth, half_ ? 1u : 0u, depthwise_ ? 1u : 0u},
                 {raw, packed}};
      set_grid(d, p.n, kWidth);
      return to.dispatch(d, p);
    });
  }

  uint32_t axes_, pixels_ = 1, quads_ = 1;
  bool half_, depthwise_;
  ConvPush push_;
  PackPush pack_;
  std::optional<RealOperand> bias_;
};

std::unique_ptr<Kernel> make(const KernelSpec& spec, uint32_t axes, const ConvShape& s, const Activation& act) {
  const Tensor* filter = spec.constant(1);
  if (!filter || !plain_reals(spec, {0}, {0}) || !ConvTexture::fits(s)) return nullptr;
  RealOperand weights;
  if (!make_real_operand(spec, 1, weights) || weights.constant) return nullptr;
  const auto x = image_of(spec, spec.inputs[0]), y = image_of(spec, spec.outputs[0]);
  if (!x || !y || spec.constant(0)) return nullptr;
  auto kernel = std::make_unique<ConvTexture>(*x, *y, axes, s, weights.half, act);
  if (std::max(kernel->packed_bytes(), filter->bytes()) > spec.device.max_binding()) return nullptr;
  if (spec.has(2)) {
    RealOperand bias;
    if (!make_float_operand(spec, 2, bias)) return nullptr;
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
  return axes ? make(spec, *axes, *s, attrs.act) : nullptr;
}

/// The rows are pixels of a channels-last image, the weights a filter of one tap.
std::unique_ptr<Kernel> make_matmul_texture(const KernelSpec& spec) {
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
  return make(spec, 1, s, attrs.act);
}

}  // namespace smelt::vulkan
