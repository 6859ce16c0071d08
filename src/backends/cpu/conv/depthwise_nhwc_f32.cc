#include <algorithm>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/depthwise_nhwc_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/depthwise_shape.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
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

using D = hn::ScalableTag<float>;
using Whole = WholeVector<D>;

/// What of a row of windows lies inside the image: lines [ky0, ky1) of each, columns [x0, x1) from the first one's
/// first. Lines from `wrap` on lie `back` floats before where they would follow.
struct Inside {
  int64_t ky0, ky1, x0, x1, wrap, back;
};

/// PX neighbouring output pixels of one vector of channels. x: the first pixel's first tap.
template <int PX, int KW, int STRIDE, class Part>
HWY_INLINE void pixels(Part part, const float* x, int64_t line, int64_t pixel, const DepthwiseFilter& f, int64_t c,
                       const Inside& inside, float* y) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  V acc[PX];
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  constexpr int kColumns = (PX - 1) * STRIDE + KW;
  const float* row = x + c + inside.ky0 * line;
  const float* taps = f.taps + c + inside.ky0 * KW * f.stride;
  for (int64_t ky = inside.ky0; ky < inside.ky1; ++ky, row += line, taps += KW * f.stride) {
    if (ky == inside.wrap) row -= inside.back;
    V wv[KW];
#pragma GCC unroll 11
    for (int k = 0; k < KW; ++k) wv[k] = hn::LoadU(d, taps + k * f.stride);
#pragma GCC unroll 17
    for (int column = 0; column < kColumns; ++column) {
      if (column < inside.x0 || column >= inside.x1) continue;
      const V v = part.load(row + column * pixel);
#pragma GCC unroll 7
      for (int p = 0; p < PX; ++p) {
        const int k = column - p * STRIDE;
        if (k >= 0 && k < KW) acc[p] = hn::MulAdd(v, wv[k], acc[p]);
      }
    }
  }
  y += c;
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) part.store(hn::Min(hn::Set(d, f.hi), hn::Max(hn::Set(d, f.lo), acc[p])), y + p * pixel);
}

/// True where registers hold more than the neighbours that all levels make at once.
constexpr bool kManyRegisters = HWY_MAX_BYTES >= 64 || HWY_ARCH_X86 == 0;
/// The least neighbours in each of two rows of output pixels that are made at once.
constexpr int kPairPixels = 4;

/// As pixels() for PX neighbours in each of two rows of output pixels, whose windows of K lines lie inside the image.
/// y_line: from the one to the other.
template <int PX, int K, int STRIDE, class Part>
HWY_INLINE void pixels_of_two_rows(Part part, const float* x, int64_t line, int64_t pixel, const DepthwiseFilter& f,
                                   int64_t c, const Inside& inside, float* y, int64_t y_line) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  const int64_t x0 = inside.x0, x1 = inside.x1;
  V acc[2][PX];
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) acc[0][p] = acc[1][p] = hn::LoadU(d, f.bias + c);
  constexpr int kColumns = (PX - 1) * STRIDE + K, kLines = STRIDE + K;
  const float* row = x + c;
  const float* taps = f.taps + c;
#pragma GCC unroll 7
  for (int i = 0; i < kLines; ++i, row += line) {
    if (i == inside.wrap) row -= inside.back;
    const bool seen[2] = {i < K, i >= STRIDE};
    V wv[2][K];
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r)
#pragma GCC unroll 5
      for (int k = 0; k < K; ++k)
        if (seen[r]) wv[r][k] = hn::LoadU(d, taps + ((i - r * STRIDE) * K + k) * f.stride);
#pragma GCC unroll 17
    for (int column = 0; column < kColumns; ++column) {
      if (column < x0 || column >= x1) continue;
      const V v = part.load(row + column * pixel);
#pragma GCC unroll 2
      for (int r = 0; r < 2; ++r)
#pragma GCC unroll 7
        for (int p = 0; p < PX; ++p) {
          const int k = column - p * STRIDE;
          if (seen[r] && k >= 0 && k < K) acc[r][p] = hn::MulAdd(v, wv[r][k], acc[r][p]);
        }
    }
  }
  y += c;
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r, y += y_line)
#pragma GCC unroll 7
    for (int p = 0; p < PX; ++p)
      part.store(hn::Min(hn::Set(d, f.hi), hn::Max(hn::Set(d, f.lo), acc[r][p])), y + p * pixel);
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

/// Neighbouring output pixels of windows of KW columns, stride 1: as many as keep the multipliers busy.
constexpr int kLargePixels = 7;

/// Computes kLargePixels pixels of channels [c0, c1).
template <int KW>
void large_pixels_of_channels(const float* x, int64_t line, int64_t pixel, const DepthwiseFilter& f, int64_t c0,
                              int64_t c1, const Inside& inside, float* y) {
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(D())))
    pixels<kLargePixels, KW, 1>(Whole{}, x, line, pixel, f, c, inside, y);
}

/// large_pixels_of_channels() of a window's width, as far as registers hold a row of its filter; else nullptr.
auto large_windows(int64_t width) {
  using Rows = decltype(&large_pixels_of_channels<7>);
  if (width == 7) return Rows{large_pixels_of_channels<7>};
  if constexpr (kManyRegisters) {
    if (width == 9) return Rows{large_pixels_of_channels<9>};
    if (width == 11) return Rows{large_pixels_of_channels<11>};
  }
  return Rows{};
}

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
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  for (int64_t ky = inside.ky0; ky < inside.ky1; ++ky) {
    const float* row = x + c + ky * g.line - (ky >= inside.wrap ? inside.back : 0);
    const float* taps = f.taps + c + ky * g.width * f.stride;
    for (int64_t k = 0; k < g.width; ++k, taps += f.stride) {
      const V w = hn::LoadU(d, taps);
      const int64_t first = k * g.tap;
#pragma GCC unroll 7
      for (int p = 0; p < PX; ++p) {
        const int64_t column = first + p * g.step;
        if (kWhole || (column >= inside.x0 && column < inside.x1))
          acc[p] = hn::MulAdd(part.load(row + column * g.pixel), w, acc[p]);
      }
    }
  }
  y += c;
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p)
    part.store(hn::Min(hn::Set(d, f.hi), hn::Max(hn::Set(d, f.lo), acc[p])), y + p * g.pixel);
}

/// As pixels_of_channels().
template <int PX, class Part>
void wide_pixels_of_channels(Part part, int64_t count, const float* x, const Windows& g, const DepthwiseFilter& f,
                             int64_t c0, int64_t c1, const Inside& inside, float* y) {
  if constexpr (PX > 1)
    if (count < PX) return wide_pixels_of_channels<PX - 1>(part, count, x, g, f, c0, c1, inside, y);
  constexpr bool kFewChannels = !std::is_same_v<Part, Whole>;  // one vector: not worth code of its own
  const bool whole = !kFewChannels && inside.x0 <= 0 && (PX - 1) * g.step + (g.width - 1) * g.tap < inside.x1;
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(part.d))) {
    if (whole)
      wide_pixels<PX, !kFewChannels>(part, x, g, f, c, inside, y);
    else
      wide_pixels<PX, false>(part, x, g, f, c, inside, y);
  }
}

/// Taps of a window, `dilation` apart, that lie in front of `distance`.
HWY_INLINE int64_t taps_before(int64_t distance, int64_t dilation) {
  return dilation == 1 ? distance : (distance + dilation - 1) / dilation;
}

/// True where registers hold what two rows need. Short vectors of x86 have too few of them.
constexpr bool kMakesTwoRows = HWY_ARCH_X86 == 0 || HWY_MAX_BYTES >= 32;

/// Output rows from oy on that are made at once: two where pixels_of_two_rows() makes them, else one.
int64_t rows_at_once(const ConvShape& g, int64_t oy, int64_t last) {
  const int64_t k = g.kernel[1], s = g.stride[1], y0 = oy * s - g.pad[1];
  const bool square = k == g.kernel[2] && s == g.stride[2] && (k == 3 ? s <= 2 : k == 5 && s == 1);
  if (!kMakesTwoRows || !square || g.dilation[1] != 1 || g.dilation[2] != 1 || g.out[2] < kPairPixels || oy + 2 > last)
    return 1;
  return y0 >= 0 && y0 + s + k <= g.in[1] ? 2 : 1;
}

/// Where the window of an output row begins in rows of the image: its first line as if all followed each other.
struct Window {
  const float* base;
  Inside inside;
  Window(const ConvShape& g, const ImageRows& x, int64_t oy) {
    const int64_t row = g.in[2] * g.all_in(), y0 = oy * g.stride[1] - g.pad[1], dy = g.dilation[1];
    const int64_t ky0 = std::clamp<int64_t>(taps_before(-y0, dy), 0, g.kernel[1]);
    const int64_t ky1 = y0 >= g.in[1] ? ky0 : std::clamp<int64_t>(taps_before(g.in[1] - y0, dy), ky0, g.kernel[1]);
    const int64_t at = ky0 < ky1 ? (y0 + ky0 * dy - x.first) % x.held : 0;
    base = x.data + (at - ky0 * dy) * row;
    inside = {ky0, ky1, 0, 0, ky0 + taps_before(x.held - at, dy), x.held * row};
  }
  /// Of the windows of output pixels from ox on: its first column.
  const float* at(const ConvShape& g, int64_t ox) {
    const int64_t x0 = ox * g.stride[2] - g.pad[2];
    inside.x0 = -x0;
    inside.x1 = g.in[2] - x0;
    return base + x0 * g.all_in();
  }
};

/// Channels [c0, c1) of one row of output pixels, as many as the part's lanes at a time.
template <class Part>
void channels(Part part, const ConvShape& g, const ImageRows& x, const DepthwiseFilter& f, int64_t oy, int64_t c0,
              int64_t c1, float* y_row) {
  const int64_t pixel = g.all_in(), line = g.in[2] * pixel * g.dilation[1], s = g.stride[2], kw = g.kernel[2];
  const int64_t tiles = (g.out[2] + kMostPixels - 1) / kMostPixels, most = (g.out[2] + tiles - 1) / tiles;
  Window window(g, x, oy);
  if constexpr (std::is_same_v<Part, Whole>)
    if (g.dilation[2] == 1 && (kw == 3 || kw == 5) && s <= 2) {
      const auto row =
          kw == 3  ? s == 1 ? pixels_of_channels<kMostPixels, 3, 1, Part> : pixels_of_channels<kMostPixels, 3, 2, Part>
           : s == 1 ? pixels_of_channels<kMostPixels, 5, 1, Part>
                   : pixels_of_channels<kMostPixels, 5, 2, Part>;
      for (int64_t ox = 0; ox < g.out[2]; ox += most) {
        const float* const from = window.at(g, ox);
        row(part, std::min(most, g.out[2] - ox), from, line, pixel, f, c0, c1, window.inside, y_row + ox * pixel);
      }
      return;
    }
  if constexpr (std::is_same_v<Part, Whole>)
    if (const auto large = large_windows(kw); large && g.dilation[2] == 1 && s == 1 && g.out[2] >= kLargePixels) {
      for (int64_t i = 0; i < g.out[2]; i += kLargePixels) {
        const int64_t ox = std::min(i, g.out[2] - kLargePixels);  // the last ones may be made twice
        const float* const from = window.at(g, ox);
        large(from, line, pixel, f, c0, c1, window.inside, y_row + ox * pixel);
      }
      return;
    }
  const Windows windows{line, pixel, kw, g.dilation[2], s};
  for (int64_t ox = 0; ox < g.out[2]; ox += most) {
    const float* const from = window.at(g, ox);
    wide_pixels_of_channels<kMostPixels>(part, std::min(most, g.out[2] - ox), from, windows, f, c0, c1, window.inside,
                                         y_row + ox * pixel);
  }
}

/// As channels(), of two rows as rows_at_once() says, PX neighbours at a time.
template <int PX, int K, int STRIDE>
void channels_of_two_rows(const ConvShape& g, const ImageRows& x, const DepthwiseFilter& f, int64_t oy, int64_t c0,
                          int64_t c1, float* y_row) {
  const int64_t pixel = g.all_in(), line = g.in[2] * pixel, y_line = g.out[2] * pixel;
  Window window(g, x, oy);
  for (int64_t i = 0; i < g.out[2]; i += PX) {
    const int64_t ox = std::min(i, g.out[2] - PX);  // the last ones may be made twice
    const float* const from = window.at(g, ox);
    for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(D())))
      pixels_of_two_rows<PX, K, STRIDE>(Whole{}, from, line, pixel, f, c, window.inside, y_row + ox * pixel, y_line);
  }
}

/// channels_of_two_rows() of as many neighbours as suit the width.
auto pair_rows(const ConvShape& g) {
  using Rows = decltype(&channels_of_two_rows<kPairPixels, 3, 1>);
  if constexpr (kManyRegisters) {
    const bool steps = g.kernel[2] == 3 && g.stride[2] == 1;
    if (steps && g.out[2] % 7 == 0) return Rows{channels_of_two_rows<7, 3, 1>};
    if (steps && g.out[2] % 5 == 0) return Rows{channels_of_two_rows<5, 3, 1>};
  }
  if constexpr (kMakesTwoRows) {
    if (g.kernel[2] == 5) return Rows{channels_of_two_rows<kPairPixels, 5, 1>};
    return g.stride[2] == 1 ? Rows{channels_of_two_rows<kPairPixels, 3, 1>}
                            : Rows{channels_of_two_rows<kPairPixels, 3, 2>};
  }
  return Rows{};
}

/// False where filled_level() takes other vectors for channels that don't fill one.
constexpr bool kMayHaveFewChannels = HWY_MAX_BYTES < 64;

/// Rows [first, last) of output pixels, channels-last.
void depthwise_rows(const ConvShape& g, const ImageRows& x, const DepthwiseFilter& f, int64_t first, int64_t last,
                    float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = g.all_in(), full = n / lanes * lanes;
  // Channels whose filters stay in the level-1 cache.
  constexpr int64_t kMostBlock = 128, kFilterFloats = 4096;
  const int64_t block = std::clamp(kFilterFloats / g.taps() / lanes * lanes, lanes, std::max(lanes, kMostBlock));
  const auto pair = pair_rows(g);
  for (int64_t oy = first, rows = 0; oy < last; oy += rows, y += rows * g.out[2] * n) {
    if constexpr (kMayHaveFewChannels)
      if (n < lanes) {
        rows = 1;
        if constexpr (kMaskedLoads)
          channels(PartVector<D>{d, hn::FirstN(d, static_cast<size_t>(n))}, g, x, f, oy, 0, n, y);
        else
          channels(WholeVector<hn::CappedTag<float, 1>>{}, g, x, f, oy, 0, n, y);
        continue;
      }
    rows = rows_at_once(g, oy, last);
    const auto make = [&](int64_t c0, int64_t c1) HWY_ATTR {
      if (rows == 2)
        pair(g, x, f, oy, c0, c1, y);
      else
        channels(Whole{}, g, x, f, oy, c0, c1, y);
    };
    for (int64_t c = 0; c < full; c += block) make(c, std::min(c + block, full));
    if (full < n) make(n - lanes, n);  // some channels are made twice
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct DepthwiseNhwcKey {
  FilterKey filter;
  auto operator<=>(const DepthwiseNhwcKey&) const = default;
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

/// The level whose vectors so many channels fill, of those that give the same bits.
Isa filled_level(Isa isa, int64_t channels) {
  constexpr int64_t kLanes = 16;  // of AVX-512
  return isa.has(IsaFeature::kAvx512) && channels < kLanes ? Isa::kAvx2 : isa;
}

class DepthwiseNhwcF32 final : public Kernel, public RowStage {
 public:
  DepthwiseNhwcF32(const ConvShape& g, const KernelSpec& spec)
      : g_(g),
        act_(spec.attrs<ConvAttrs>().act),
        stride_(round_up(g.groups, 16)),
        packed_(pack_depthwise(spec, g, stride_)),
        rows_(SMELT_FOR_LEVEL(filled_level(spec.isa, g.groups), depthwise_rows)) {}
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    const EpilogueRun epilogue(epilogue_, ctx);
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    // Threads get as many rows each: those whose pixels they made, and few of others.
    ranges_in_slots(ctx.threads(), ctx.threads().threads(), g_.batch * g_.out[1],
                    [&](int64_t begin, int64_t end, int64_t) {
                      for (int64_t r = begin, n = 0; r < end; r += n) {
                        const int64_t row = r % g_.out[1];
                        n = std::min(end - r, g_.out[1] - row);
                        rows({x + r / g_.out[1] * g_.in_pixels() * g_.all_in(), 0, g_.in[1]}, row, row + n,
                             epilogue ? &epilogue : nullptr, nullptr, y + r * g_.out[2] * g_.all_out());
                      }
                    });
    return Ok();
  }

  RowStage* row_stage() override { return this; }
  Reads reads() const override { return Reads::kRing; }
  const ConvShape& shape() const override { return g_; }
  const EpilogueF32& row_epilogue() const override { return epilogue_; }
  void rows(const ImageRows& x, int64_t first, int64_t last, const EpilogueRun* epilogue, float*,
            float* y) const override {
    const Bounds bounds = activation_bounds(act_);
    const float* base = packed_->data<float>();
    const DepthwiseFilter filter{base, base + stride_, stride_, bounds.lo, bounds.hi};
    const int64_t few = clamps(act_) && !epilogue ? last - first : 2;  // rows that are near when they are finished
    for (int64_t row = first, n = 0; row < last; row += n, y += n * g_.out[2] * g_.all_out()) {
      n = std::min(few, last - row);
      rows_(g_, x, filter, row, row + n, y);
      apply_activation(act_, y, 1, n * g_.out[2] * g_.all_out(), 0);
      if (epilogue) (*epilogue)(y, n * g_.out[2], g_.all_out(), g_.all_out());
    }
  }

 private:
  ConvShape g_;
  Activation act_;
  EpilogueF32 epilogue_;
  int64_t stride_;
  Packed packed_;
  void (*rows_)(const ConvShape&, const ImageRows&, const DepthwiseFilter&, int64_t, int64_t, float*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_nhwc_f32(const KernelSpec& spec) {
  const auto g = depthwise_shape(spec);
  return g ? std::make_unique<DepthwiseNhwcF32>(*g, spec) : nullptr;
}

}  // namespace smelt
#endif
