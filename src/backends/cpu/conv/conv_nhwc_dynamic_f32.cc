// Channels-last float32 convolutions with a dynamic filter or bias: each run puts the filter in order.
#include <algorithm>
#include <vector>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_nhwc_dynamic_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "base/checked.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[c] += x[c] * w[c].
void multiply_add(const float* x, const float* w, int64_t n, float* y) {
  const auto step = [&](auto d, int64_t c) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::LoadU(d, x + c), hn::LoadU(d, w + c), hn::LoadU(d, y + c)), d, y + c);
  };
  for_lanes<float>(n, step);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// Copies outputs [first, last) of a filter of any layout as [output][tap][channel].
void copy_filter(const ConvShape& g, const float* filter, int64_t first, int64_t last, float* to) {
  for (int64_t o = first; o < last; ++o)
    for (int64_t t = 0; t < g.taps(); ++t)
      for (int64_t i = 0; i < g.c_in; ++i) *to++ = filter[o * g.filter_o + i * g.filter_i + t * g.filter_s];
}

/// Rows of patches times the filter, which is packed before.
class ConvNhwcDynamicF32 final : public Kernel {
 public:
  ConvNhwcDynamicF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        gemm_(gemm_f32(spec.isa)),
        act_(spec.attrs<ConvAttrs>().act),
        has_bias_(spec.has(2)),
        threads_(std::max(spec.threads, 1)),
        group_(round_up(gemm_.packed_size(g.k(), g.c_out), 16)),
        ordered_(round_up(gemm_.nr() * g.k(), 16)),
        block_(std::max<int64_t>(1, 48 * 1024 / std::max<int64_t>(1, g.k() * gemm_.mr)) * gemm_.mr),
        slot_(round_up(std::max(block_ * g.k() + kPatchSlack, ordered_), 16)) {}
  size_t scratch_bytes() const override {
    return static_cast<size_t>(group_ * g_.groups + threads_ * slot_) * sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    auto* packed = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!packed) return Error(ErrorCode::kLimit, "no memory for the filter of a convolution");
    float* const slots = packed + group_ * g_.groups;
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    const float* filter = ctx.input(1).data<float>();
    in_slots(ctx.threads(), threads_, gemm_.panels(g_.c_out) * g_.groups,
             [&](int64_t panel, int64_t slot) { pack(filter, bias, panel, slots + slot * slot_, packed); });
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t blocks = ceil_div(g_.out_pixels(), block_);
    in_slots(ctx.threads(), threads_, g_.batch * blocks, [&](int64_t i, int64_t slot) {
      block(x, y, i / blocks, i % blocks * block_, packed, slots + slot * slot_);
    });
    return Ok();
  }

 private:
  void pack(const float* filter, const float* bias, int64_t index, float* ordered, float* packed) const {
    const int64_t panels = gemm_.panels(g_.c_out), group = index / panels, panel = index % panels;
    const int64_t column = panel * gemm_.nr(), n = std::min(gemm_.nr(), g_.c_out - column);
    const int64_t first = group * g_.c_out + column;
    copy_filter(g_, filter, first, first + n, ordered);
    gemm_.pack(ordered, 1, g_.k(), g_.k(), n, bias ? bias + first : nullptr,
               packed + group * group_ + gemm_.panel_offset(g_.k(), panel));
  }
  /// Output pixels of an image from `first` on.
  void block(const float* x, float* y, int64_t image, int64_t first, const float* packed, float* patches) const {
    const int64_t last = std::min(first + block_, g_.out_pixels());
    const Bounds bounds = activation_bounds(act_);
    const float* from = x + image * g_.in_pixels() * g_.all_in();
    float* to = y + (image * g_.out_pixels() + first) * g_.all_out();
    for (int64_t group = 0; group < g_.groups; ++group) {
      im2col_rows<float>(g_, from + group * g_.c_in, first, last, 0.0f, patches, g_.k());
      gemm_.run(last - first, g_.c_out, g_.k(), patches, g_.k(), packed + group * group_, 0, gemm_.panels(g_.c_out),
                to + group * g_.c_out, g_.all_out(), nullptr, bounds.lo, bounds.hi);
    }
    apply_activation(act_, to, last - first, g_.all_out(), g_.all_out());
  }

  ConvShape g_;
  const GemmF32& gemm_;
  Activation act_;
  bool has_bias_;
  int64_t threads_, group_, ordered_, block_, slot_;  ///< group_, ordered_, slot_: floats
};

/// One filter a channel: lines of pixels, tap by tap.
class DepthwiseDynamicF32 final : public Kernel {
 public:
  DepthwiseDynamicF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        act_(spec.attrs<ConvAttrs>().act),
        has_bias_(spec.has(2)),
        add_(SMELT_FOR_LEVEL(spec.isa, multiply_add)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(g_.taps() * g_.groups) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    auto* weights = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!weights) return Error(ErrorCode::kLimit, "no memory for the filter of a convolution");
    const float* filter = ctx.input(1).data<float>();
    for (int64_t t = 0; t < g_.taps(); ++t)
      for (int64_t c = 0; c < g_.groups; ++c) weights[t * g_.groups + c] = filter[c * g_.filter_o + t * g_.filter_s];
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    const int64_t lines = g_.out[0] * g_.out[1], floats = g_.out[2] * g_.groups;
    const int64_t grain = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, floats * g_.taps()));
    ctx.threads().parallel_for(g_.batch * lines, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        line(ctx.input(0).data<float>() + i / lines * g_.in_pixels() * g_.groups, i % lines, weights, bias,
             ctx.output(0).data<float>() + i * floats);
    });
    return Ok();
  }

 private:
  void line(const float* x, int64_t index, const float* weights, const float* bias, float* y) const {
    const int64_t n = g_.groups, oz = index / g_.out[1], oy = index % g_.out[1];
    const Bounds bounds = activation_bounds(act_);
    for (int64_t ox = 0; ox < g_.out[2]; ++ox, y += n) {
      for (int64_t c = 0; c < n; ++c) y[c] = bias ? bias[c] : 0.0f;
      const float* w = weights;
      for (int64_t kz = 0; kz < g_.kernel[0]; ++kz)
        for (int64_t ky = 0; ky < g_.kernel[1]; ++ky)
          for (int64_t kx = 0; kx < g_.kernel[2]; ++kx, w += n) {
            const int64_t iz = oz * g_.stride[0] - g_.pad[0] + kz * g_.dilation[0];
            const int64_t iy = oy * g_.stride[1] - g_.pad[1] + ky * g_.dilation[1];
            const int64_t ix = ox * g_.stride[2] - g_.pad[2] + kx * g_.dilation[2];
            if (iz >= 0 && iz < g_.in[0] && iy >= 0 && iy < g_.in[1] && ix >= 0 && ix < g_.in[2])
              add_(x + ((iz * g_.in[1] + iy) * g_.in[2] + ix) * n, w, n, y);
          }
      for (int64_t c = 0; c < n; ++c) y[c] = y[c] < bounds.lo ? bounds.lo : y[c] > bounds.hi ? bounds.hi : y[c];
      apply_activation(act_, y, 1, n, n);
    }
  }

  ConvShape g_;
  Activation act_;
  bool has_bias_;
  void (*add_)(const float*, const float*, int64_t, float*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_nhwc_dynamic_f32(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || g->k() == 0 || spec.outputs[0].shape.elements() == 0) return spec.refuse("a geometry that no kernel takes");
  if (g->depthwise() && g->c_out == 1) return std::make_unique<DepthwiseDynamicF32>(*g, spec);
  return std::make_unique<ConvNhwcDynamicF32>(*g, spec);
}

}  // namespace smelt
#endif
