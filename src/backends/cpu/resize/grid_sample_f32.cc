#include <algorithm>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/resize/grid_sample_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "ops/resize/resize.h"

#ifndef SMELT_CPU_GRID_SAMPLE_F32
#define SMELT_CPU_GRID_SAMPLE_F32
namespace smelt {
/// Planes of height x width pixels that are sampled.
struct SampledPlane {
  int64_t height, width;
  bool align_corners, nearest;
  GridSampleAttrs::Padding padding;
  int64_t taps() const { return nearest ? 1 : 4; }
};
/// Points that are worked on at a time, and their taps: four indices into a plane and four weights each, tap by tap. A
/// tap outside the plane has the weight 0.
struct SampledPoints {
  static constexpr int64_t kMost = 128;
  int32_t index[4][kMost];
  float weight[4][kMost];
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;

/// Two taps of one dimension of n pixels at points g in [-1, 1]: pixels inside it and weights.
struct Pair {
  hn::Vec<DI> at[2];
  hn::Vec<D> weight[2];
};
HWY_INLINE Pair taps_at(hn::Vec<D> g, int64_t n, const SampledPlane& s) {
  const D d;
  const DI di;
  const auto size = static_cast<float>(n);
  const auto one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  auto x = s.align_corners ? hn::Mul(hn::Add(g, one), hn::Set(d, (size - 1) * 0.5f))
                           : hn::Mul(hn::Sub(hn::Mul(hn::Add(g, one), hn::Set(d, size)), one), hn::Set(d, 0.5f));
  // NaN becomes -1, what is far away a point whose taps are outside as well.
  x = hn::IfThenElse(hn::IsNaN(x), hn::Set(d, -1.0f), x);
  const bool zeros = s.padding == GridSampleAttrs::Padding::kZeros;
  if (s.padding == GridSampleAttrs::Padding::kReflection) {
    const float low = s.align_corners ? 0 : -0.5f, range = s.align_corners ? size - 1 : size;
    const auto period = hn::Set(d, 2 * std::max(range, 0.5f));
    const auto far = hn::Abs(hn::Sub(x, hn::Set(d, low)));
    const auto once = hn::NegMulAdd(hn::Floor(hn::Div(far, period)), period, far);
    x = hn::Add(hn::Min(once, hn::Sub(period, once)), hn::Set(d, low));
  }
  const float low = zeros ? -2 : 0, high = zeros ? size + 1 : size - 1;
  x = hn::Min(hn::Max(x, hn::Set(d, low)), hn::Set(d, high));
  const auto base = s.nearest ? hn::Round(x) : hn::Floor(x), part = s.nearest ? zero : hn::Sub(x, base);
  const auto next = hn::Add(base, one);
  const auto last = hn::Set(d, size - 1);
  return {
      {hn::ConvertTo(di, hn::Min(hn::Max(base, zero), last)), hn::ConvertTo(di, hn::Min(hn::Max(next, zero), last))},
      {hn::IfThenElseZero(hn::And(hn::Ge(base, zero), hn::Le(base, last)), hn::Sub(one, part)),
       hn::IfThenElseZero(hn::And(hn::Ge(next, zero), hn::Le(next, last)), part)}};
}

/// Taps of `count` points, whose coordinates lie as x, y, x, y ...
void point_taps(const SampledPlane& s, const float* grid, int64_t count, SampledPoints& points) {
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto width = hn::Set(di, static_cast<int32_t>(s.width));
  float tail[2 * HWY_MAX_BYTES / 4] = {};
  for (int64_t i = 0; i < count; i += lanes) {
    const float* from = grid + 2 * i;
    if (i + lanes > count) {
      std::copy(from, grid + 2 * count, tail);
      from = tail;
    }
    hn::Vec<D> gx, gy;
    hn::LoadInterleaved2(d, from, gx, gy);
    const Pair x = taps_at(gx, s.width, s), y = taps_at(gy, s.height, s);
    for (int64_t t = 0; t < s.taps(); ++t) {
      hn::StoreU(hn::Add(hn::Mul(y.at[t / 2], width), x.at[t % 2]), di, points.index[t] + i);
      hn::StoreU(hn::Mul(y.weight[t / 2], x.weight[t % 2]), d, points.weight[t] + i);
    }
  }
}

/// y[i] = sum of the taps of point i in a plane.
void sample_points(const float* plane, const SampledPoints& points, int64_t taps, int64_t count, float* y) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX2  // elsewhere gathers are missing
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i < count; i += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t) {
      const auto weight = hn::LoadU(d, points.weight[t] + i);
      // A number that counts for nothing may be infinite.
      const auto v = hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)),
                                        hn::GatherIndex(d, plane, hn::LoadU(di, points.index[t] + i)));
      sum = hn::MulAdd(weight, v, sum);
    }
    if (i + lanes <= count)
      hn::StoreU(sum, d, y + i);
    else
      hn::BlendedStore(sum, hn::FirstN(d, static_cast<size_t>(count - i)), d, y + i);
  }
#endif
  for (; i < count; ++i) {
    float sum = 0;
    for (int64_t t = 0; t < taps; ++t)
      if (points.weight[t][i] != 0) sum += points.weight[t][i] * plane[points.index[t][i]];
    y[i] = sum;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class GridSampleF32 final : public Kernel {
 public:
  GridSampleF32(const KernelSpec& spec, const SampledPlane& plane)
      : plane_(plane),
        batch_(spec.outputs[0].shape[0]),
        channels_(spec.outputs[0].shape[1]),
        points_(spec.outputs[0].shape[2] * spec.outputs[0].shape[3]),
        taps_(SMELT_FOR_LEVEL(spec.isa, point_taps)),
        sample_(SMELT_FOR_LEVEL(spec.isa, sample_points)) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t pixels = plane_.height * plane_.width;
    const int64_t parts = ceil_div(points_, SampledPoints::kMost);
    const int64_t grain = std::max<int64_t>(1, 8192 / (SampledPoints::kMost * std::max<int64_t>(channels_, 1)));
    ctx.threads().parallel_for(batch_ * parts, grain, [&](int64_t begin, int64_t end) {
      SampledPoints points;
      float rounded[2 * SampledPoints::kMost];
      for (int64_t part = begin; part < end; ++part) {
        const int64_t n = part / parts, first = part % parts * SampledPoints::kMost;
        const int64_t count = std::min(SampledPoints::kMost, points_ - first);
        taps_(plane_, coordinates(ctx.input(1), 2 * (n * points_ + first), 2 * count, rounded), count, points);
        for (int64_t c = n * channels_; c < (n + 1) * channels_; ++c)
          sample_(x + c * pixels, points, plane_.taps(), count, y + c * points_ + first);
      }
    });
    return Ok();
  }

 private:
  /// `count` coordinates from `first` on, those of float64 written to `rounded`.
  static const float* coordinates(const Tensor& grid, int64_t first, int64_t count, float* rounded) {
    if (grid.dtype() == DType::kF32) return grid.data<float>() + first;
    std::transform(grid.data<double>() + first, grid.data<double>() + first + count, rounded,
                   [](double v) { return static_cast<float>(v); });
    return rounded;
  }

  SampledPlane plane_;
  int64_t batch_, channels_, points_;
  void (*taps_)(const SampledPlane&, const float*, int64_t, SampledPoints&);
  void (*sample_)(const float*, const SampledPoints&, int64_t, int64_t, float*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_grid_sample_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<GridSampleAttrs>();
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  constexpr int64_t kMost = 1 << 24;  // whole numbers that float32 tells apart
  if (a.mode == GridSampleAttrs::Mode::kCubic) return spec.refuse("cubic sampling");
  if (x.rank() != 4 || x.elements() == 0 || y.elements() == 0 || x[2] * x[3] > kMost) return nullptr;
  return std::make_unique<GridSampleF32>(
      spec, SampledPlane{x[2], x[3], a.align_corners, a.mode == GridSampleAttrs::Mode::kNearest, a.padding});
}

}  // namespace smelt
#endif
