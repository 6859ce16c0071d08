#include <algorithm>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/depthwise_nchw_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/depthwise_shape.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/slots.h"
#include "base/checked.h"
#include "ops/conv/conv_shape.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// One plane, channels-first. Each input line is laid out in `work` as stride[2] phases with its padding, so that a tap
/// of neighbouring output pixels is one contiguous run: work[line][phase][phase_length].
void depthwise_plane(const ConvShape& g, const float* x, const float* w, float bias, float lo, float hi, float* work,
                     int64_t phase_length, float* y) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  constexpr int64_t kLanes = HWY_MAX_BYTES / 4;
  const int64_t s = g.stride[2], line = s * phase_length;
  for (int64_t i = 0; i < g.in[1]; ++i)
    for (int64_t phase = 0; phase < s; ++phase) {
      float* to = work + i * line + phase * phase_length;
      // Entry j is input column j * s + phase - pad.
      const int64_t begin = std::min(phase_length, std::max<int64_t>(0, (g.pad[2] - phase + s - 1) / s));
      const int64_t end = std::clamp<int64_t>((g.in[2] + g.pad[2] - phase + s - 1) / s, begin, phase_length);
      std::fill(to, to + begin, 0.0f);
      const float* from = x + i * g.in[2] + phase - g.pad[2];
      if (s == 1)
        std::copy(from + begin, from + end, to + begin);
      else
        for (int64_t j = begin; j < end; ++j) to[j] = from[j * s];
      std::fill(to + end, to + phase_length, 0.0f);
    }
  for (int64_t oy = 0; oy < g.out[1]; ++oy) {
    const int64_t y0 = oy * g.stride[1] - g.pad[1];
    for (int64_t ox = 0; ox < g.out[2]; ox += 2 * kLanes) {
      V a0 = hn::Set(d, bias), a1 = a0;
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky) {
        const int64_t at = y0 + ky * g.dilation[1];
        if (at < 0 || at >= g.in[1]) continue;
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx) {
          const int64_t column = kx * g.dilation[2];
          const float* from = work + at * line + column % s * phase_length + column / s + ox;
          const V wv = hn::Set(d, w[ky * g.kernel[2] + kx]);
          a0 = hn::MulAdd(hn::LoadU(d, from), wv, a0);
          a1 = hn::MulAdd(hn::LoadU(d, from + kLanes), wv, a1);
        }
      }
      a0 = clamp(a0, hn::Set(d, lo), hn::Set(d, hi));
      a1 = clamp(a1, hn::Set(d, lo), hn::Set(d, hi));
      float* to = y + oy * g.out[2] + ox;
      const int64_t left = g.out[2] - ox;
      if (left >= 2 * kLanes) {
        hn::StoreU(a0, d, to);
        hn::StoreU(a1, d, to + kLanes);
      } else {
        hn::BlendedStore(a0, hn::FirstN(d, static_cast<size_t>(std::min(left, kLanes))), d, to);
        if (left > kLanes) hn::BlendedStore(a1, hn::FirstN(d, static_cast<size_t>(left - kLanes)), d, to + kLanes);
      }
    }
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct DepthwiseNchwKey {
  FilterKey filter;
  auto operator<=>(const DepthwiseNchwKey&) const = default;
};

class DepthwiseNchwF32 final : public Kernel {
 public:
  DepthwiseNchwF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        has_bias_(spec.has(2)),
        plane_(SMELT_FOR_LEVEL(spec.isa, depthwise_plane)) {
    // The furthest tap of the last output pixels is read in whole vectors.
    phase_length_ = round_up(g.out[2], 32) + (g.kernel[2] - 1) * g.dilation[2] / g.stride[2] + 1;
    work_ = round_up(g.in[1] * g.stride[2] * phase_length_, 16);
    if (!in_order(g)) packed_ = pack_planes(spec);
  }
  /// True if filters are rows of taps as they are.
  static bool in_order(const ConvShape& g) { return (g.filter_s == 1 || g.taps() == 1) && g.filter_o == g.taps(); }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * work_) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    const float* filter = packed_ ? packed_->data<float>() : ctx.input(1).data<float>();
    const float* bias = has_bias_ ? ctx.input(2).data<float>() : nullptr;
    float* y = ctx.output(0).data<float>();
    auto* scratch = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a depthwise convolution");
    const Bounds bounds = activation_bounds(act_);
    in_slots(ctx.threads(), threads_, g_.batch * g_.groups, [&](int64_t p, int64_t slot) {
      const int64_t c = p % g_.groups;
      float* to = y + p * g_.out_pixels();
      plane_(g_, x + p * g_.in_pixels(), filter + c * g_.taps(), bias ? bias[c] : 0.0f, bounds.lo, bounds.hi,
             scratch + slot * work_, phase_length_, to);
      apply_activation(act_, to, 1, g_.out_pixels(), 0);
    });
    return Ok();
  }

 private:
  Packed pack_planes(const KernelSpec& spec) const {
    const float* filter = spec.constant(1)->data<float>();
    return spec.packs.get(DepthwiseNchwKey{{g_, *spec.constant(1), nullptr}}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(g_.groups * g_.taps()) * sizeof(float));
      for (int64_t c = 0; c < g_.groups; ++c)
        for (int64_t t = 0; t < g_.taps(); ++t)
          packed->data<float>()[c * g_.taps() + t] = filter[c * g_.filter_o + t * g_.filter_s];
      return packed;
    });
  }

  ConvShape g_;
  Activation act_;
  int64_t threads_, phase_length_ = 0, work_ = 0;
  bool has_bias_;
  Packed packed_;
  void (*plane_)(const ConvShape&, const float*, const float*, float, float, float, float*, int64_t, float*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_nchw_f32(const KernelSpec& spec) {
  const auto g = depthwise_shape(spec);
  if (g && !spec.constant(1) && !DepthwiseNchwF32::in_order(*g))
    return spec.refuse("a dynamic filter whose taps are not neighbours");
  return g ? std::make_unique<DepthwiseNchwF32>(*g, spec) : nullptr;
}

}  // namespace smelt
#endif
