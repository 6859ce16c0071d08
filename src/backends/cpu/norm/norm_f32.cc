// Normalizations of images: batch, group and instance normalization, local response normalization.
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/norm/norm_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/slots.h"
#include "base/checked.h"
#include "ops/normalization/normalization.h"

#ifndef SMELT_CPU_NORM_F32
#define SMELT_CPU_NORM_F32
namespace smelt {
/// An image of `pixels` rows of `channels` values, or (channels-first) of `channels` planes.
struct ImageShape {
  int64_t batch, channels, pixels;
  bool last;
};
struct LrnParameters {
  int64_t before, after;
  float alpha, bias;
  int quarters;  ///< the exponent in quarters: 2, 3 or 4
};
struct ImageNormOps {
  /// y = clamp(x * a + b) by channel.
  void (*affine)(const ImageShape& s, const float* x, const float* a, const float* b, float lo, float hi, float* y);
  /// sums[c] = sum of x, or of (x - mean[c])^2.
  void (*sums)(const ImageShape& s, const float* x, const float* mean, double* sums);
  /// workspace: the squares of one pixel with zeros around them (channels-last), or one plane.
  void (*lrn)(const ImageShape& s, const LrnParameters& p, const float* x, float* workspace, float* y);
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using One = hn::CappedTag<float, 1>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = HWY_MAX_BYTES / 4;

/// Calls f(tag, i) for whole vectors, then for single lanes.
template <class F>
HWY_INLINE void each(int64_t n, F&& f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) f(D(), i);
  for (; i < n; ++i) f(One(), i);
}

/// y = clamp(x * a + b) for `pixels` channels-last pixels and kVectors vectors of channels from c on.
template <int kVectors, class Tag>
HWY_INLINE void affine_channels(Tag d, const ImageShape& s, const float* x, const float* a, const float* b, float lo,
                                float hi, int64_t pixels, int64_t c, float* y) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, lo), high = hn::Set(d, hi);
  hn::Vec<Tag> factor[kVectors], addend[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    factor[v] = hn::LoadU(d, a + c + v * lanes);
    addend[v] = hn::LoadU(d, b + c + v * lanes);
  }
  for (int64_t p = 0; p < pixels; ++p)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = p * s.channels + c + v * lanes;
      hn::StoreU(clamp(hn::MulAdd(hn::LoadU(d, x + at), factor[v], addend[v]), low, high), d, y + at);
    }
}

/// Calls f(tag, number of vectors, c) for all channels from c on: four vectors, one, eight lanes, single ones.
template <class F>
HWY_INLINE void each_channels(int64_t channels, F&& f) {
  constexpr int kTogether = 4;  // independent sums hide the latency of an addition
  int64_t c = 0;
  for (; c + kTogether * kLanes <= channels; c += kTogether * kLanes)
    f(D(), std::integral_constant<int, kTogether>(), c);
  for (; c + kLanes <= channels; c += kLanes) f(D(), std::integral_constant<int, 1>(), c);
  if (constexpr int64_t kEight = 8; kLanes > kEight && c + kEight <= channels) {
    f(hn::CappedTag<float, kEight>(), std::integral_constant<int, 1>(), c);
    c += kEight;
  }
  for (; c < channels; ++c) f(One(), std::integral_constant<int, 1>(), c);
}

void affine(const ImageShape& s, const float* x, const float* a, const float* b, float lo, float hi, float* y) {
  if (s.last) {
    constexpr int64_t kFloats = 2048;  // the nearest cache holds a block of pixels
    const int64_t block = std::max<int64_t>(1, kFloats / s.channels);
    for (int64_t first = 0; first < s.pixels; first += block) {
      const int64_t at = first * s.channels, pixels = std::min(block, s.pixels - first);
      each_channels(s.channels, [&](auto d, auto vectors, int64_t c) HWY_ATTR {
        affine_channels<vectors()>(d, s, x + at, a, b, lo, hi, pixels, c, y + at);
      });
    }
    return;
  }
  for (int64_t c = 0; c < s.channels; ++c, x += s.pixels, y += s.pixels)
    each(s.pixels, [&](auto d, int64_t i) HWY_ATTR {
      const auto v = hn::MulAdd(hn::LoadU(d, x + i), hn::Set(d, a[c]), hn::Set(d, b[c]));
      hn::StoreU(clamp(v, hn::Set(d, lo), hn::Set(d, hi)), d, y + i);
    });
}

template <class T>
HWY_INLINE T term(T x, T mean, bool centred) {
  const T v = hn::Sub(x, mean);
  return centred ? hn::Mul(v, v) : x;
}

/// out[c] += the sum of term() over `pixels` channels-last pixels, for kVectors vectors of channels from c on.
template <int kVectors, bool kCentred, class Tag>
HWY_INLINE void channel_sums(Tag d, const ImageShape& s, const float* x, int64_t pixels, const float* mean, int64_t c,
                             double* out) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  hn::Vec<Tag> sum[kVectors], m[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    sum[v] = hn::Zero(d);
    m[v] = kCentred ? hn::LoadU(d, mean + c + v * lanes) : hn::Zero(d);
  }
  for (int64_t p = 0; p < pixels; ++p)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[v] = hn::Add(sum[v], term(hn::LoadU(d, x + p * s.channels + c + v * lanes), m[v], kCentred));
  HWY_ALIGN float entries[kVectors * HWY_MAX_BYTES / 4];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, entries + v * lanes);
  for (int64_t i = 0; i < kVectors * lanes; ++i) out[c + i] += static_cast<double>(entries[i]);
}

template <bool kCentred>
void pixel_sums(const ImageShape& s, const float* x, const float* mean, double* out) {
  constexpr int64_t kChunk = 64;  // float32 sums stay short
  std::fill_n(out, s.channels, 0.0);
  for (int64_t first = 0; first < s.pixels; first += kChunk)
    each_channels(s.channels, [&](auto d, auto vectors, int64_t c) HWY_ATTR {
      channel_sums<vectors(), kCentred>(d, s, x + first * s.channels, std::min(kChunk, s.pixels - first), mean, c, out);
    });
}

void sums(const ImageShape& s, const float* x, const float* mean, double* out) {
  if (s.last) return mean ? pixel_sums<true>(s, x, mean, out) : pixel_sums<false>(s, x, mean, out);
  constexpr int64_t kChunk = 64;  // float32 sums stay short
  const D d;
  for (int64_t c = 0; c < s.channels; ++c, x += s.pixels) {
    const V m = hn::Set(d, mean ? mean[c] : 0.0f);
    double total = 0;
    int64_t i = 0;
    while (i + kLanes <= s.pixels) {
      V sum = hn::Zero(d);
      for (int64_t k = 0; k < kChunk && i + kLanes <= s.pixels; ++k, i += kLanes)
        sum = hn::Add(sum, term(hn::LoadU(d, x + i), m, mean != nullptr));
      total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
    }
    for (; i < s.pixels; ++i) {
      const double v = static_cast<double>(x[i]) - static_cast<double>(mean ? mean[c] : 0.0f);
      total += mean ? v * v : v;
    }
    out[c] = total;
  }
}

/// x / v^(quarters / 4).
template <class D2, class V2 = hn::Vec<D2>>
HWY_INLINE V2 divide_by_power(D2, V2 x, V2 v, int quarters) {
  if (quarters == 4) return hn::Div(x, v);
  const V2 root = hn::Sqrt(v);
  return hn::Div(x, quarters == 2 ? root : hn::Mul(root, hn::Sqrt(root)));
}

void lrn(const ImageShape& s, const LrnParameters& p, const float* x, float* workspace, float* y) {
  if (s.last) {
    std::fill_n(workspace, s.channels + p.before + p.after + kLanes, 0.0f);
    for (int64_t i = 0; i < s.pixels; ++i, x += s.channels, y += s.channels) {
      each(s.channels, [&](auto d, int64_t c) HWY_ATTR {
        const auto v = hn::LoadU(d, x + c);
        hn::StoreU(hn::Mul(v, v), d, workspace + p.before + c);
      });
      each(s.channels, [&](auto d, int64_t c) HWY_ATTR {
        auto sum = hn::LoadU(d, workspace + c);
        for (int64_t k = 1; k <= p.before + p.after; ++k) sum = hn::Add(sum, hn::LoadU(d, workspace + c + k));
        const auto v = hn::MulAdd(hn::Set(d, p.alpha), sum, hn::Set(d, p.bias));
        hn::StoreU(divide_by_power(d, hn::LoadU(d, x + c), v, p.quarters), d, y + c);
      });
    }
    return;
  }
  for (int64_t c = 0; c < s.channels; ++c) {
    const int64_t first = std::max<int64_t>(0, c - p.before), last = std::min(s.channels - 1, c + p.after);
    each(s.pixels, [&](auto d, int64_t i) HWY_ATTR {
      auto sum = hn::Zero(d);
      for (int64_t k = first; k <= last; ++k) {
        const auto v = hn::LoadU(d, x + k * s.pixels + i);
        sum = hn::MulAdd(v, v, sum);
      }
      const auto v = hn::MulAdd(hn::Set(d, p.alpha), sum, hn::Set(d, p.bias));
      hn::StoreU(divide_by_power(d, hn::LoadU(d, x + c * s.pixels + i), v, p.quarters), d, y + c * s.pixels + i);
    });
  }
}

ImageNormOps make_image_norm_ops() { return {affine, sums, lrn}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

ImageNormOps image_norm_ops(Isa isa) { return SMELT_FOR_LEVEL(isa, make_image_norm_ops)(); }

/// nullopt: an image without elements.
std::optional<ImageShape> image_shape(const KernelSpec& spec, Layout layout) {
  const Shape& x = spec.inputs[0].shape;
  if (x.rank() < 2 || x.elements() == 0) return std::nullopt;
  ImageShape s{x[0], x[layout == Layout::kChannelsFirst ? 1 : x.rank() - 1], 1, layout == Layout::kChannelsLast};
  s.pixels = x.elements() / (s.batch * s.channels);
  return s;
}

class BatchNormF32 final : public Kernel {
 public:
  BatchNormF32(const ImageShape& s, const KernelSpec& spec)
      : s_(s), epsilon_(spec.attrs<BatchNormAttrs>().epsilon), ops_(image_norm_ops(spec.isa)) {
    for (size_t i = 1; i < 5; ++i)
      if (spec.has(i) && !spec.constant(i)) return;
    constant_.resize(static_cast<size_t>(2 * padded_floats(s.channels)));
    parameters([&](size_t i) { return spec.has(i) ? spec.constant(i)->data<float>() : nullptr; }, constant_.data());
  }
  size_t scratch_bytes() const override {
    return constant_.empty() ? static_cast<size_t>(2 * padded_floats(s_.channels)) * sizeof(float) : 0;
  }
  Status run(KernelContext& ctx) const override {
    const float* a = constant_.data();
    if (constant_.empty()) {
      auto* workspace = static_cast<float*>(ctx.scratch(scratch_bytes()));
      if (!workspace) return Error(ErrorCode::kLimit, "no memory for a normalization");
      parameters(
          [&](size_t i) {
            const int index = static_cast<int>(i);
            return ctx.has(index) ? ctx.input(index).data<float>() : nullptr;
          },
          workspace);
      a = workspace;
    }
    normalize(ctx.threads(), ctx.input(0).data<float>(), a, a + padded_floats(s_.channels),
              ctx.output(0).data<float>());
    return Ok();
  }

 private:
  /// Factors and addends of the channels, padded_floats() apart. given(i): input i, or null.
  template <class F>
  void parameters(F&& given, float* factors) const {
    float* addends = factors + padded_floats(s_.channels);
    const float *scales = given(1), *biases = given(2), *means = given(3), *variances = given(4);
    const auto entry = [](const float* from, int64_t c, double otherwise) {
      return from ? static_cast<double>(from[c]) : otherwise;
    };
    for (int64_t c = 0; c < s_.channels; ++c) {
      const double scale = entry(scales, c, 1) / std::sqrt(entry(variances, c, 1) + epsilon_);
      factors[c] = static_cast<float>(scale);
      addends[c] = static_cast<float>(entry(biases, c, 0) - entry(means, c, 0) * scale);
    }
  }
  /// Threads share pixels, or planes of channels.
  void normalize(ThreadPool& pool, const float* x, const float* a, const float* b, float* y) const {
    constexpr int64_t kGrain = 8192;
    const Bounds none = activation_bounds({});
    const int64_t unit = s_.last ? s_.channels : s_.pixels, units = s_.batch * (s_.last ? s_.pixels : s_.channels);
    pool.parallel_for(units, std::max<int64_t>(1, kGrain / unit), [&](int64_t begin, int64_t end) {
      ImageShape part = s_;
      for (int64_t n = 0; begin < end; begin += n) {
        const int64_t channel = s_.last ? 0 : begin % s_.channels;
        n = s_.last ? end - begin : std::min(end - begin, s_.channels - channel);
        (s_.last ? part.pixels : part.channels) = n;
        ops_.affine(part, x + begin * unit, a + channel, b + channel, none.lo, none.hi, y + begin * unit);
      }
    });
  }

  ImageShape s_;
  double epsilon_;
  ImageNormOps ops_;
  std::vector<float> constant_;  ///< factors and addends where they are constants
};

class GroupNormF32 final : public Kernel {
 public:
  GroupNormF32(const ImageShape& s, const GroupNormAttrs& a, int64_t groups, Isa isa)
      : s_(s), a_(a), groups_(groups), ops_(image_norm_ops(isa)) {
    // As many parts for every number of threads: sums of parts add up to the same bits.
    constexpr int64_t kPart = 16 * 1024, kMostParts = 16, kUnit = 64;
    const int64_t parts = std::clamp<int64_t>(s.channels * s.pixels / kPart, 1, kMostParts);
    part_ = s.last ? round_up(ceil_div(s.pixels, parts), kUnit) : s.pixels;
    parts_ = ceil_div(s.pixels, part_);
  }
  size_t scratch_bytes() const override {
    return static_cast<size_t>(padded_floats(s_.channels)) * (sizeof(double) * static_cast<size_t>(parts_) + 8);
  }
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return s_.last && clamps(a_.act) && epilogue_.take(epilogue);
  }
  Status run(KernelContext& ctx) const override {
    auto* sums = static_cast<double*>(ctx.scratch(scratch_bytes()));
    if (!sums) return Error(ErrorCode::kLimit, "no memory for a normalization");
    auto* a = reinterpret_cast<float*>(sums + parts_ * padded_floats(s_.channels));
    float* b = a + padded_floats(s_.channels);
    const int64_t size = s_.channels * s_.pixels;
    const EpilogueRun epilogue(epilogue_, ctx);
    ThreadPool& pool = ctx.threads();
    for (int64_t n = 0; n < s_.batch; ++n) {
      const float* x = ctx.input(0).data<float>() + n * size;
      float* y = ctx.output(0).data<float>() + n * size;
      add_up(pool, x, nullptr, sums);
      average(sums);
      for (int64_t c = 0; c < s_.channels; ++c) b[c] = static_cast<float>(sums[c]);
      add_up(pool, x, b, sums);
      average(sums);
      parameters(ctx, sums, a, b);
      const int64_t unit = s_.last ? s_.channels : s_.pixels, units = s_.last ? s_.pixels : s_.channels;
      pool.parallel_for(units, std::max<int64_t>(1, kGrain / unit), [&](int64_t begin, int64_t end) {
        const ImageShape part = units_of(end - begin);
        const int64_t channel = s_.last ? 0 : begin;
        normalize(part, x + begin * unit, a + channel, b + channel, epilogue, y + begin * unit);
        apply_activation(a_.act, y + begin * unit, 1, (end - begin) * unit, 0);
      });
    }
    return Ok();
  }

 private:
  static constexpr int64_t kGrain = 8192;
  /// So many of the image's pixels, or planes.
  ImageShape units_of(int64_t count) const {
    ImageShape part = s_;
    (s_.last ? part.pixels : part.channels) = count;
    return part;
  }
  /// The sums of every channel, as ImageNormOps::sums. sums: has memory for those of all parts.
  void add_up(ThreadPool& pool, const float* x, const float* mean, double* sums) const {
    if (!s_.last) {
      pool.parallel_for(s_.channels, std::max<int64_t>(1, kGrain / s_.pixels), [&](int64_t begin, int64_t end) {
        ops_.sums(units_of(end - begin), x + begin * s_.pixels, mean ? mean + begin : nullptr, sums + begin);
      });
      return;
    }
    const int64_t stride = padded_floats(s_.channels);
    pool.parallel_for(parts_, 1, [&](int64_t p, int64_t end) {
      for (; p < end; ++p)
        ops_.sums(units_of(std::min(part_, s_.pixels - p * part_)), x + p * part_ * s_.channels, mean,
                  sums + p * stride);
    });
    for (int64_t p = 1; p < parts_; ++p)
      for (int64_t c = 0; c < s_.channels; ++c) sums[c] += sums[p * stride + c];
  }
  /// y = clamp(x * a + b) by channel, then the epilogue on blocks of pixels.
  void normalize(const ImageShape& part, const float* x, const float* a, const float* b, const EpilogueRun& epilogue,
                 float* y) const {
    const Bounds bounds = activation_bounds(a_.act);
    if (!epilogue) return ops_.affine(part, x, a, b, bounds.lo, bounds.hi, y);
    constexpr int64_t kFloats = 2048;  // the nearest cache holds a block and the other operand's
    const int64_t most = std::max<int64_t>(1, kFloats / s_.channels);
    ImageShape block = part;
    for (int64_t first = 0; first < part.pixels; first += most) {
      block.pixels = std::min(most, part.pixels - first);
      const int64_t at = first * s_.channels;
      ops_.affine(block, x + at, a, b, bounds.lo, bounds.hi, y + at);
      epilogue(y + at, block.pixels, s_.channels, s_.channels);
    }
  }
  /// Every channel's sum becomes the mean of its group.
  void average(double* sums) const {
    const int64_t width = s_.channels / groups_;
    for (int64_t g = 0; g < groups_; ++g) {
      double total = 0;
      for (int64_t c = g * width; c < (g + 1) * width; ++c) total += sums[c];
      std::fill_n(sums + g * width, width, total / static_cast<double>(width * s_.pixels));
    }
  }
  /// b holds the means; the variances become factors and addends.
  void parameters(KernelContext& ctx, const double* variance, float* a, float* b) const {
    const int64_t width = s_.channels / groups_;
    const float* scales = ctx.has(1) ? ctx.input(1).data<float>() : nullptr;
    const float* biases = ctx.has(2) ? ctx.input(2).data<float>() : nullptr;
    for (int64_t g = 0; g < groups_; ++g) {
      const double deviation = std::sqrt(variance[g * width] + a_.epsilon);
      for (int64_t c = g * width; c < (g + 1) * width; ++c) {
        const int64_t p = a_.per_group_affine ? g : c;
        const double scale = (scales ? static_cast<double>(scales[p]) : 1.0) / deviation;
        const double bias = biases ? static_cast<double>(biases[p]) : 0.0;
        a[c] = static_cast<float>(scale);
        b[c] = static_cast<float>(bias - static_cast<double>(b[c]) * scale);
      }
    }
  }

  ImageShape s_;
  GroupNormAttrs a_;
  EpilogueF32 epilogue_;
  int64_t groups_;
  int64_t parts_ = 1, part_ = 1;  ///< of an image that add up by themselves; the pixels of all but the last
  ImageNormOps ops_;
};

class LrnF32 final : public Kernel {
 public:
  LrnF32(const ImageShape& s, const LrnParameters& p, const KernelSpec& spec)
      : s_(s), p_(p), threads_(std::max(spec.threads, 1)), ops_(image_norm_ops(spec.isa)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_floats()) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    auto* workspace = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!workspace) return Error(ErrorCode::kLimit, "no memory for a normalization");
    const int64_t size = s_.channels * s_.pixels;
    for (int64_t n = 0; n < s_.batch; ++n) {
      const float* x = ctx.input(0).data<float>() + n * size;
      float* y = ctx.output(0).data<float>() + n * size;
      // Threads share pixels; planes of channels see each other.
      ranges_in_slots(ctx.threads(), threads_, s_.last ? s_.pixels : 1, [&](int64_t first, int64_t last, int64_t slot) {
        ImageShape part = s_;
        if (s_.last) part.pixels = last - first;
        ops_.lrn(part, p_, x + first * s_.channels, workspace + slot * slot_floats(), y + first * s_.channels);
      });
    }
    return Ok();
  }

 private:
  int64_t slot_floats() const { return round_up(s_.channels + p_.before + p_.after + 64, 16); }

  ImageShape s_;
  LrnParameters p_;
  int64_t threads_;
  ImageNormOps ops_;
};

bool only_first_output(const KernelSpec& spec) {
  for (size_t i = 1; i < spec.node.outputs.size(); ++i)
    if (spec.node.outputs[i] != kNoValue) return false;
  return true;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_batch_norm_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<BatchNormAttrs>();
  auto s = image_shape(spec, a.layout);
  if (!s || a.training || !only_first_output(spec)) return nullptr;
  s->last = s->last || s->pixels == 1;  // channels lie side by side in either layout
  for (size_t i = 1; i < 5; ++i)
    if (spec.has(i) && spec.inputs[i].shape.elements() != s->channels) return nullptr;
  return std::make_unique<BatchNormF32>(*s, spec);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_group_norm_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<GroupNormAttrs>();
  const auto s = image_shape(spec, a.layout);
  if (!s || !only_first_output(spec)) return nullptr;
  const int64_t groups = a.groups > 0 ? a.groups : s->channels;
  if (s->channels % groups != 0) return nullptr;
  for (size_t i = 1; i < 3; ++i)
    if (spec.has(i) && spec.inputs[i].shape.elements() != (a.per_group_affine ? groups : s->channels)) return nullptr;
  return std::make_unique<GroupNormF32>(*s, a, groups, spec.isa);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_lrn_f32(const KernelSpec& spec) {
  const auto& a = spec.attrs<LrnAttrs>();
  const auto s = image_shape(spec, a.layout);
  const double quarters = a.beta * 4;
  if (!s || a.size < 1 || a.size > 64 || (quarters != 2 && quarters != 3 && quarters != 4)) return nullptr;
  LrnParameters p{};
  p.before = (a.size - 1) / 2;
  p.after = a.size - 1 - p.before;
  p.alpha = static_cast<float>(a.alpha);
  p.bias = static_cast<float>(a.bias);
  p.quarters = static_cast<int>(quarters);
  return std::make_unique<LrnF32>(*s, p, spec);
}

}  // namespace smelt
#endif
