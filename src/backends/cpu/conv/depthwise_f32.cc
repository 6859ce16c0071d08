#include <algorithm>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/depthwise_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "base/checked.h"
#include "ops/conv/conv_shape.h"

#ifndef SMELT_CPU_DEPTHWISE_F32
#define SMELT_CPU_DEPTHWISE_F32
namespace smelt {
/// Filters as [taps][channels] behind one row of bias; rows are `stride` floats apart.
struct DepthwiseFilter {
  const float* bias;
  const float* taps;
  int64_t stride;
  float lo, hi;
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// What of a row of windows lies inside the image: lines [ky0, ky1) of each, columns [x0, x1) from the first one's
/// first.
struct Inside {
  int64_t ky0, ky1, x0, x1;
};

/// PX neighbouring output pixels of one vector of channels. x: the first pixel's first tap.
template <int PX, int KW, int STRIDE, class Part>
HWY_INLINE void pixels(Part part, const float* x, int64_t line, int64_t pixel, const DepthwiseFilter& f, int64_t c,
                       const Inside& inside, float* y) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  V acc[PX];
#pragma GCC unroll 6
  for (int p = 0; p < PX; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  constexpr int kColumns = (PX - 1) * STRIDE + KW;
  const float* row = x + c + inside.ky0 * line;
  const float* taps = f.taps + c + inside.ky0 * KW * f.stride;
  for (int64_t ky = inside.ky0; ky < inside.ky1; ++ky, row += line, taps += KW * f.stride) {
    V wv[KW];
#pragma GCC unroll 5
    for (int k = 0; k < KW; ++k) wv[k] = hn::LoadU(d, taps + k * f.stride);
#pragma GCC unroll 16
    for (int column = 0; column < kColumns; ++column) {
      if (column < inside.x0 || column >= inside.x1) continue;
      const V v = part.load(row + column * pixel);
#pragma GCC unroll 6
      for (int p = 0; p < PX; ++p) {
        const int k = column - p * STRIDE;
        if (k >= 0 && k < KW) acc[p] = hn::MulAdd(v, wv[k], acc[p]);
      }
    }
  }
  y += c;
#pragma GCC unroll 6
  for (int p = 0; p < PX; ++p) part.store(hn::Min(hn::Set(d, f.hi), hn::Max(hn::Set(d, f.lo), acc[p])), y + p * pixel);
}

/// Computes at most `count` pixels, of channels [c0, c1).
template <int PX, int KW, int STRIDE, class Part>
void pixels_of_channels(Part part, int64_t count, const float* x, int64_t line, int64_t pixel, const DepthwiseFilter& f,
                        int64_t c0, int64_t c1, const Inside& inside, float* y) {
  if constexpr (PX > 1)
    if (count < PX) return pixels_of_channels<PX - 1, KW, STRIDE>(part, count, x, line, pixel, f, c0, c1, inside, y);
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(part.d)))
    pixels<PX, KW, STRIDE>(part, x, line, pixel, f, c, inside, y);
}

#if HWY_MAX_BYTES >= 64
constexpr int kMostPixels = 6;
#else
constexpr int kMostPixels = 4;
#endif

/// Windows of any width, stride and dilation: taps of one output pixel are `tap` columns apart, first taps of
/// neighbouring ones `step` columns.
struct Windows {
  int64_t line, pixel, width, tap, step;
};

/// As pixels(). kWhole: all columns of the windows lie inside the image.
template <int PX, bool kWhole, class Part>
HWY_INLINE void wide_pixels(Part part, const float* x, const Windows& g, const DepthwiseFilter& f, int64_t c,
                            const Inside& inside, float* y) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  V acc[PX];
#pragma GCC unroll 6
  for (int p = 0; p < PX; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  for (int64_t ky = inside.ky0; ky < inside.ky1; ++ky) {
    const float* row = x + c + ky * g.line;
    const float* taps = f.taps + c + ky * g.width * f.stride;
    for (int64_t k = 0; k < g.width; ++k, taps += f.stride) {
      const V w = hn::LoadU(d, taps);
      const int64_t first = k * g.tap;
#pragma GCC unroll 6
      for (int p = 0; p < PX; ++p) {
        const int64_t column = first + p * g.step;
        if (kWhole || (column >= inside.x0 && column < inside.x1))
          acc[p] = hn::MulAdd(part.load(row + column * g.pixel), w, acc[p]);
      }
    }
  }
  y += c;
#pragma GCC unroll 6
  for (int p = 0; p < PX; ++p)
    part.store(hn::Min(hn::Set(d, f.hi), hn::Max(hn::Set(d, f.lo), acc[p])), y + p * g.pixel);
}

/// As pixels_of_channels().
template <int PX, class Part>
void wide_pixels_of_channels(Part part, int64_t count, const float* x, const Windows& g, const DepthwiseFilter& f,
                             int64_t c0, int64_t c1, const Inside& inside, float* y) {
  if constexpr (PX > 1)
    if (count < PX) return wide_pixels_of_channels<PX - 1>(part, count, x, g, f, c0, c1, inside, y);
  const bool whole = inside.x0 <= 0 && (PX - 1) * g.step + (g.width - 1) * g.tap < inside.x1;
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(part.d))) {
    if (whole)
      wide_pixels<PX, true>(part, x, g, f, c, inside, y);
    else
      wide_pixels<PX, false>(part, x, g, f, c, inside, y);
  }
}

/// Taps of a window, `dilation` apart, that lie in front of `distance`.
HWY_INLINE int64_t taps_before(int64_t distance, int64_t dilation) {
  return dilation == 1 ? distance : (distance + dilation - 1) / dilation;
}

/// Channels [c0, c1) of one row of output pixels, as many as the part's lanes at a time.
template <class Part>
void channels(Part part, const ConvShape& g, const float* image, const DepthwiseFilter& f, int64_t oy, int64_t c0,
              int64_t c1, float* y_row) {
  const int64_t pixel = g.all_in(), line = g.in[2] * pixel * g.dilation[1], s = g.stride[2], kw = g.kernel[2];
  const int64_t y0 = oy * g.stride[1] - g.pad[1], dx = g.dilation[2];
  const int64_t ky0 = std::clamp<int64_t>(taps_before(-y0, g.dilation[1]), 0, g.kernel[1]);
  const int64_t ky1 =
      y0 >= g.in[1] ? ky0 : std::clamp<int64_t>(taps_before(g.in[1] - y0, g.dilation[1]), ky0, g.kernel[1]);
  const float* base = image + y0 * g.in[2] * pixel;
  const int64_t tiles = (g.out[2] + kMostPixels - 1) / kMostPixels, most = (g.out[2] + tiles - 1) / tiles;
  if (dx == 1 && (kw == 3 || kw == 5) && s <= 2) {
    const auto row =
        kw == 3  ? s == 1 ? pixels_of_channels<kMostPixels, 3, 1, Part> : pixels_of_channels<kMostPixels, 3, 2, Part>
         : s == 1 ? pixels_of_channels<kMostPixels, 5, 1, Part>
                 : pixels_of_channels<kMostPixels, 5, 2, Part>;
    for (int64_t ox = 0; ox < g.out[2]; ox += most) {
      const int64_t x0 = ox * s - g.pad[2];
      row(part, std::min(most, g.out[2] - ox), base + x0 * pixel, line, pixel, f, c0, c1, {ky0, ky1, -x0, g.in[2] - x0},
          y_row + ox * pixel);
    }
    return;
  }
  const Windows windows{line, pixel, kw, dx, s};
  for (int64_t ox = 0; ox < g.out[2]; ox += most) {
    const int64_t x0 = ox * s - g.pad[2];
    wide_pixels_of_channels<kMostPixels>(part, std::min(most, g.out[2] - ox), base + x0 * pixel, windows, f, c0, c1,
                                         {ky0, ky1, -x0, g.in[2] - x0}, y_row + ox * pixel);
  }
}

/// One row of output pixels, channels-last.
void depthwise_row(const ConvShape& g, const float* image, const DepthwiseFilter& f, int64_t oy, float* y_row) {
  using D = hn::ScalableTag<float>;
  const D d;
  const int64_t n = g.all_in(), full = n / static_cast<int64_t>(hn::Lanes(d)) * static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kBlock = 128;  // channels whose filters stay in the level-1 cache
  for (int64_t c = 0; c < full; c += kBlock)
    channels(WholeVector<D>{d}, g, image, f, oy, c, std::min(c + kBlock, full), y_row);
  if (full == n) return;
  if constexpr (kMaskedLoads) {
    channels(PartVector<D>{d, hn::FirstN(d, static_cast<size_t>(n - full))}, g, image, f, oy, full, n, y_row);
  } else {
    using One = hn::CappedTag<float, 1>;
    channels(WholeVector<One>{One()}, g, image, f, oy, full, n, y_row);
  }
}

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
      a0 = hn::Min(hn::Set(d, hi), hn::Max(hn::Set(d, lo), a0));
      a1 = hn::Min(hn::Set(d, hi), hn::Max(hn::Set(d, lo), a1));
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

/// Two-dimensional depthwise convolution with one filter a channel.
std::optional<ConvShape> depthwise_shape(const KernelSpec& spec) {
  auto g = ConvShape::make(spec);
  if (!g || !g->depthwise() || g->c_out != 1 || !g->planar() || spec.outputs[0].shape.elements() == 0)
    return std::nullopt;
  return g;
}

struct DepthwiseNhwcKey {
  FilterKey filter;
  auto operator<=>(const DepthwiseNhwcKey&) const = default;
};
struct DepthwiseNchwKey {
  FilterKey filter;
  auto operator<=>(const DepthwiseNchwKey&) const = default;
};

Packed pack_depthwise(const KernelSpec& spec, const ConvShape& g, int64_t stride) {
  const float* filter = spec.constant(1)->data<float>();
  const float* bias = spec.has(2) ? spec.constant(2)->data<float>() : nullptr;
  return spec.packs.get(DepthwiseNhwcKey{{g, *spec.constant(1), spec.constant(2)}}, [&] {
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>((g.taps() + 1) * stride) * sizeof(float));
    float* to = packed->data<float>();
    for (int64_t c = 0; c < g.groups; ++c) {
      to[c] = bias ? bias[c] : 0.0f;
      for (int64_t t = 0; t < g.taps(); ++t) to[(t + 1) * stride + c] = filter[c * g.filter_o + t * g.filter_s];
    }
    return packed;
  });
}

class DepthwiseNhwcF32 final : public Kernel {
 public:
  DepthwiseNhwcF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        act_(spec.attrs<ConvAttrs>().act),
        stride_(round_up(g.groups, 16)),
        packed_(pack_depthwise(spec, g, stride_)),
        row_(SMELT_FOR_LEVEL(spec.isa, depthwise_row)) {}
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    const EpilogueRun epilogue(epilogue_, ctx);
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const Bounds bounds = activation_bounds(act_);
    const float* base = packed_->data<float>();
    const DepthwiseFilter filter{base, base + stride_, stride_, bounds.lo, bounds.hi};
    const int64_t rows = g_.batch * g_.out[1], threads = ctx.threads().threads();
    constexpr double kChunk = 1 << 16;  // multiply-adds worth a chunk of its own
    const double work = static_cast<double>(rows * g_.out[2] * g_.taps()) * static_cast<double>(g_.all_out());
    const int64_t chunks = std::clamp(static_cast<int64_t>(std::min(work / kChunk, 1e6)), threads, threads * 4);
    ctx.threads().parallel_for(rows, ceil_div(rows, chunks), [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        float* to = y + r * g_.out[2] * g_.all_out();
        row_(g_, x + r / g_.out[1] * g_.in_pixels() * g_.all_in(), filter, r % g_.out[1], to);
        apply_activation(act_, to, 1, g_.out[2] * g_.all_out(), 0);
        if (epilogue) epilogue(to, g_.out[2], g_.all_out(), g_.all_out());
      }
    });
    return Ok();
  }

 private:
  ConvShape g_;
  Activation act_;
  EpilogueF32 epilogue_;
  int64_t stride_;
  Packed packed_;
  void (*row_)(const ConvShape&, const float*, const DepthwiseFilter&, int64_t, float*);
};

class DepthwiseNchwF32 final : public Kernel {
 public:
  DepthwiseNchwF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        act_(spec.attrs<ConvAttrs>().act),
        threads_(std::max(spec.threads, 1)),
        has_bias_(spec.has(2)),
        plane_(SMELT_FOR_LEVEL(spec.isa, depthwise_plane)) {
    // Room for whole vectors at the last output pixel of the furthest tap.
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
    const int64_t planes = g_.batch * g_.groups, slots = std::min(threads_, planes);
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t p = planes * slot / slots; p < planes * (slot + 1) / slots; ++p) {
          const int64_t c = p % g_.groups;
          float* to = y + p * g_.out_pixels();
          plane_(g_, x + p * g_.in_pixels(), filter + c * g_.taps(), bias ? bias[c] : 0.0f, bounds.lo, bounds.hi,
                 scratch + slot * work_, phase_length_, to);
          apply_activation(act_, to, 1, g_.out_pixels(), 0);
        }
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

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_nhwc_f32(const KernelSpec& spec) {
  const auto g = depthwise_shape(spec);
  return g ? std::make_unique<DepthwiseNhwcF32>(*g, spec) : nullptr;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_nchw_f32(const KernelSpec& spec) {
  const auto g = depthwise_shape(spec);
  if (g && !spec.constant(1) && !DepthwiseNchwF32::in_order(*g))
    return spec.refuse("a dynamic filter whose taps are not neighbours");
  return g ? std::make_unique<DepthwiseNchwF32>(*g, spec) : nullptr;
}

}  // namespace smelt
#endif
