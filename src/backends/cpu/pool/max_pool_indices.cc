// Maxima of windows and where they are. The first of equal maxima counts, and the last NaN.
#include <cmath>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool/max_pool_indices.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/pool/pool_shape.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[c] = the largest of image[positions[t] * n + c] for t below `count`; at[c] = its t.
void max_of_taps(const float* image, const int64_t* positions, int64_t count, int64_t n, float* y, int32_t* at) {
  const auto step = [&](auto d, int64_t c) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    auto best = hn::Set(d, -std::numeric_limits<float>::infinity());
    auto tap = hn::Zero(di);
    for (int64_t t = 0; t < count; ++t) {
      const auto v = hn::LoadU(d, image + positions[t] * n + c);
      const auto better = hn::Or(hn::Gt(v, best), hn::IsNaN(v));
      best = hn::IfThenElse(better, v, best);
      tap = hn::IfThenElse(hn::RebindMask(di, better), hn::Set(di, static_cast<int32_t>(t)), tap);
    }
    hn::StoreU(best, d, y + c);
    hn::StoreU(tap, di, at + c);
  };
  for_lanes<float>(n, step);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

template <class Index>
class MaxPoolIndices final : public Kernel {
 public:
  MaxPoolIndices(const PoolShape& s, const KernelSpec& spec)
      : s_(s),
        rule_(spec.attrs<PoolAttrs>().index),
        max_(SMELT_FOR_LEVEL(spec.isa, max_of_taps)),
        threads_(std::max(spec.threads, 1)),
        taps_bytes_(rounded(s.taps() * 8)),
        slot_bytes_(2 * taps_bytes_ + rounded(s.channels * 4)) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_) * slot_bytes_; }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    auto* indices = ctx.output(1).data<Index>();
    const int64_t lines = s_.dims[0].out * s_.dims[1].out, width = s_.dims[2].out;
    // Channels-first: every plane is an image of one channel.
    const int64_t channels = s_.channels_last ? s_.channels : 1;
    return in_slots(ctx, threads_, s_.batch * (s_.channels / channels) * lines, slot_bytes_,
                    [&](int64_t unit, char* scratch) {
                      const int64_t image = unit / lines;
                      line(x + image * s_.in_pixels() * channels, image, unit % lines, channels,
                           y + unit * width * channels, indices + unit * width * channels, scratch);
                    });
  }

 private:
  /// Taps of a window in the image: the pixels, and what indices say of them.
  int64_t window(const int64_t out[3], int64_t* pixels, int64_t* marks) const {
    int64_t first[3], last[3], count = 0;
    for (int i = 0; i < 3; ++i) PoolShape::range(s_.dims[i], out[i], first[i], last[i]);
    const auto at = [&](int i, int64_t k) {
      return out[i] * s_.dims[i].stride - s_.dims[i].pad_begin + k * s_.dims[i].dilation;
    };
    const int64_t depth = s_.dims[0].in, height = s_.dims[1].in, width = s_.dims[2].in;
    for (int64_t z = first[0]; z < last[0]; ++z)
      for (int64_t v = first[1]; v < last[1]; ++v)
        for (int64_t u = first[2]; u < last[2]; ++u, ++count) {
          const int64_t iz = at(0, z), iy = at(1, v), ix = at(2, u);
          pixels[count] = (iz * height + iy) * width + ix;
          if (rule_ == PoolAttrs::Index::kWindowColumn)
            marks[count] = (u * s_.dims[1].kernel + v) * s_.dims[0].kernel + z;
          else if (rule_ == PoolAttrs::Index::kTensorColumn)
            marks[count] = (ix * height + iy) * depth + iz;
          else
            marks[count] = pixels[count];
        }
    return count;
  }
  void line(const float* image, int64_t index, int64_t row, int64_t channels, float* y, Index* indices,
            char* scratch) const {
    auto* pixels = reinterpret_cast<int64_t*>(scratch);
    auto* marks = reinterpret_cast<int64_t*>(scratch + taps_bytes_);
    auto* at = reinterpret_cast<int32_t*>(scratch + 2 * taps_bytes_);
    const bool in_tensor = rule_ == PoolAttrs::Index::kTensorRow || rule_ == PoolAttrs::Index::kTensorColumn;
    const bool interleaved = rule_ == PoolAttrs::Index::kTensorRow && channels > 1;
    const int64_t base = in_tensor ? index * channels * s_.in_pixels() : 0, factor = interleaved ? channels : 1;
    const int64_t channel_step = !in_tensor ? 0 : interleaved ? 1 : s_.in_pixels();
    each_pixel(s_, row, [&](int64_t, const int64_t out[3]) {
      const int64_t count = window(out, pixels, marks);
      if (channels == 1)
        *at = largest(image, pixels, count, y);
      else
        max_(image, pixels, count, channels, y, at);
      for (int64_t c = 0; c < channels; ++c)
        indices[c] = static_cast<Index>(base + marks[at[c]] * factor + c * channel_step);
      y += channels;
      indices += channels;
    });
  }
  static int32_t largest(const float* image, const int64_t* pixels, int64_t count, float* y) {
    float best = -std::numeric_limits<float>::infinity();
    int32_t at = 0;
    for (int64_t t = 0; t < count; ++t) {
      const float v = image[pixels[t]];
      if (v > best || std::isnan(v)) {
        best = v;
        at = static_cast<int32_t>(t);
      }
    }
    *y = best;
    return at;
  }

  PoolShape s_;
  PoolAttrs::Index rule_;
  void (*max_)(const float*, const int64_t*, int64_t, int64_t, float*, int32_t*);
  int64_t threads_;
  size_t taps_bytes_, slot_bytes_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_max_pool_indices(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<PoolAttrs>();
  if (attrs.kind != PoolKind::kMax || attrs.act.kind != ActKind::kNone)
    return spec.refuse("no maximum, or an activation");
  const auto s = PoolShape::make(spec, true);
  if (!s) return spec.refuse("no indices are wanted, or a window without an element of the image");
  if (attrs.index_dtype == DType::kI32) return std::make_unique<MaxPoolIndices<int32_t>>(*s, spec);
  if (attrs.index_dtype == DType::kI64) return std::make_unique<MaxPoolIndices<int64_t>>(*s, spec);
  return spec.refuse("indices of another type than int32 or int64");
}

}  // namespace smelt
#endif
