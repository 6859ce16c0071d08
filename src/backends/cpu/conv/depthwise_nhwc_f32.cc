#include <algorithm>
#include <cstdint>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/depthwise_nhwc_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/depthwise_pixels-inl.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/row_stage.h"
#include "backends/cpu/conv/seen_taps.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/vectors-inl.h"
#include "base/checked.h"
#include "base/selection.h"
#include "ops/conv/conv_shape.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Taps of a window, `dilation` apart, that lie in front of `distance`.
HWY_INLINE int64_t taps_before(int64_t distance, int64_t dilation) {
  return dilation == 1 ? distance : (distance + dilation - 1) / dilation;
}

/// True where registers hold what two rows need. Short vectors of x86 have too few of them.
constexpr bool kMakesTwoRows = HWY_ARCH_X86 == 0 || HWY_MAX_BYTES >= 32;

/// From one output row to the next whose window shares lines with its window.
int64_t row_step(const ConvShape& g) { return g.stride[1] == 1 ? g.dilation[1] : 1; }

/// Of pixels of an output row, as row_step(): what EachPixel has as its step.
int64_t pixel_step(const ConvShape& g) { return g.stride[2] == 1 ? g.dilation[2] : 1; }

/// Output rows from oy on, row_step() apart, that are made at once: two where pixels_of_two_rows() makes them, else
/// one.
int64_t rows_at_once(const ConvShape& g, int64_t oy, int64_t last) {
  const int64_t k = g.kernel[1], s = g.stride[1], dy = g.dilation[1], y0 = oy * s - g.pad[1];
  const bool square = k == g.kernel[2] && s == g.stride[2] && (k == 3 ? s <= 2 : k == 5 && s == 1);
  const bool dilated = s > 1 && (dy > 1 || g.dilation[2] > 1);
  const bool narrow = g.out[2] < kPairPixels * pixel_step(g);
  if (!kMakesTwoRows || !square || dilated || narrow || oy + row_step(g) >= last) return 1;
  return y0 >= 0 && y0 + row_step(g) * s + (k - 1) * dy < g.in[1] ? 2 : 1;
}

/// The lines that the windows of an output row see, or of two rows that are made at once.
struct Window {
  SeenLine lines[DepthwiseImage::kMostLines];
  Inside inside{};
  Window(const ConvShape& g, const DepthwiseImage& image, const DepthwiseFilter& f, int64_t oy, int64_t rows) {
    const ImageRows& x = image.rows;
    const int64_t row = g.in[2] * g.all_in(), y0 = oy * g.stride[1] - g.pad[1], dy = g.dilation[1];
    const int64_t k = g.kernel[1], step = g.kernel[2] * f.stride;
    auto [ky0, ky1] = taps_inside(g, 1, oy);
    if (rows == 2) ky1 += g.stride[1];  // all lie inside
    const int64_t begin = ky0 < ky1 ? (y0 + ky0 * dy - x.first) % x.held : 0;
    SeenLine* to = lines;
    const float* slice = x.floats() + begin * row;
    for (int64_t kz = image.first; kz < image.last; ++kz, slice += image.slice) {
      const float *line = slice, *taps = f.taps + (kz * k + ky0) * step;
      int64_t until_wrap = x.held - begin;
      for (int64_t ky = ky0; ky < ky1; ++ky, line += dy * row, until_wrap -= dy) {
        if (until_wrap <= 0) line -= x.held * row, until_wrap += x.held;
        *to++ = {line, taps};
        if (ky < k - 1) taps += step;
      }
    }
    inside.lines = lines;
    inside.end = to;
  }
  /// Of the windows of output pixels from ox on: their first column in a line.
  int64_t at(const ConvShape& g, int64_t ox) {
    const int64_t x0 = ox * g.stride[2] - g.pad[2];
    inside.x0 = -x0;
    inside.x1 = g.in[2] - x0;
    return x0 * g.all_in();
  }
};

/// Every `step`-th pixel of a row, from output pixel `first` on: of windows of stride 1 and a dilation of `step` they
/// are what neighbours are of windows of dilation 1.
struct EachPixel {
  int64_t first, step, count;
  /// As Window::at() for pixel i of these, with columns `step` apart.
  int64_t at(const ConvShape& g, Window& window, int64_t i) const {
    const int64_t from = window.at(g, first + i * step);
    window.inside.x0 = taps_before(window.inside.x0, step);
    window.inside.x1 = taps_before(window.inside.x1, step);
    return from;
  }
};

/// kLargePixels pixels at a time: calls make(first tap, pixel) for each.
template <class F>
HWY_INLINE void each_large(const ConvShape& g, const EachPixel& each, Window& window, F&& make) {
  for (int64_t n = 0; n < each.count; n += kLargePixels) {
    const int64_t i = std::min(n, each.count - kLargePixels);  // the last ones may be made twice
    make(each.at(g, window, i), each.first + i * each.step);
  }
}

/// Channels [c0, c1) of some pixels of one row, as many as the part's lanes at a time. bfloat16: three columns, not
/// dilated, one or two columns apart.
template <class Part, class T>
HWY_INLINE void channels_of_pixels(Part part, const ConvShape& g, const EachPixel& each, Window& window,
                                   const DepthwiseFilter& f, int64_t c0, int64_t c1, T* y_row) {
  constexpr bool kFloat = std::is_same_v<T, float>;
  const int64_t all = g.all_in(), pixel = all * each.step;
  const int64_t s = g.stride[2], kw = g.kernel[2], tap = g.dilation[2] / each.step;
  const int64_t tiles = (each.count + kMostPixels - 1) / kMostPixels, most = (each.count + tiles - 1) / tiles;
  const Inside& inside = window.inside;
  if constexpr (std::is_same_v<Part, Whole>) {
    if (tap == 1 && (kw == 3 || (kFloat && kw == 5)) && s <= 2) {
      auto row =
          s == 1 ? pixels_of_channels<kMostPixels, 3, 1, Part, T> : pixels_of_channels<kMostPixels, 3, 2, Part, T>;
      if constexpr (kFloat)
        if (kw == 5)
          row =
              s == 1 ? pixels_of_channels<kMostPixels, 5, 1, Part, T> : pixels_of_channels<kMostPixels, 5, 2, Part, T>;
      for (int64_t i = 0; i < each.count; i += most) {
        const int64_t from = each.at(g, window, i);
        row(part, std::min(most, each.count - i), from, pixel, f, c0, c1, inside,
            y_row + (each.first + i * each.step) * all);
      }
      return;
    }
  }
  if constexpr (kFloat) {
    if constexpr (std::is_same_v<Part, Whole>)
      if (tap == 1 && s == 1 && each.count >= kLargePixels) {
        if (const auto large = large_windows(kw))
          return each_large(g, each, window,
                            [&](int64_t from, int64_t ox) { large(from, pixel, f, c0, c1, inside, y_row + ox * all); });
        if constexpr (kManyRegisters)
          if (kw >= kWideWindow)
            return each_large(g, each, window, [&](int64_t from, int64_t ox) {
              wide_windows_of_channels(from, pixel, kw, f, c0, c1, inside, y_row + ox * all);
            });
      }
    const Windows windows{pixel, kw, tap, s};
    for (int64_t i = 0; i < each.count; i += most) {
      const int64_t from = each.at(g, window, i);
      wide_pixels_of_channels<kMostPixels>(part, std::min(most, each.count - i), from, windows, f, c0, c1, inside,
                                           y_row + (each.first + i * each.step) * all);
    }
  }
}

/// channels_of_pixels() of one row of output pixels.
template <class Part, class T>
void channels(Part part, const ConvShape& g, const DepthwiseImage& x, const DepthwiseFilter& f, int64_t oy, int64_t c0,
              int64_t c1, T* y_row) {
  Window window(g, x, f, oy, 1);
  int64_t step = 1;
  if constexpr (std::is_same_v<Part, Whole> && kManyRegisters)
    if (g.stride[2] == 1 && kPairPixels * g.dilation[2] <= g.out[2]) step = g.dilation[2];
  for (int64_t first = 0; first < step; ++first)
    channels_of_pixels(part, g, {first, step, (g.out[2] - first + step - 1) / step}, window, f, c0, c1, y_row);
}

/// As channels(), of two rows as rows_at_once() says, PX neighbours at a time.
template <int PX, int K, int STRIDE, class T>
void channels_of_two_rows(const ConvShape& g, const DepthwiseImage& x, const DepthwiseFilter& f, int64_t oy, int64_t c0,
                          int64_t c1, T* y_row) {
  const int64_t all = g.all_in(), step = STRIDE == 1 ? g.dilation[2] : 1, pixel = all * step;
  const int64_t y_line = g.out[2] * all * row_step(g);
  Window window(g, x, f, oy, 2);
  for (int64_t first = 0; first < step; ++first) {
    const EachPixel each{first, step, (g.out[2] - first + step - 1) / step};
    for (int64_t n = 0; n < each.count; n += PX) {
      const int64_t i = std::min(n, each.count - PX);  // the last ones may be made twice
      const int64_t from = each.at(g, window, i);
      T* const to = y_row + (first + i * step) * all;
      for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(D())))
        pixels_of_two_rows<PX, K, STRIDE>(Whole{}, from, pixel, f, c, window.inside, to, y_line);
    }
  }
}

/// channels_of_two_rows() of as many neighbours as suit the width.
template <class T>
auto pair_rows(const ConvShape& g) {
  using Rows = decltype(&channels_of_two_rows<kPairPixels, 3, 1, T>);
  if constexpr (kManyRegisters) {
    const bool steps = g.kernel[2] == 3 && g.stride[2] == 1;
    const int64_t pixels = g.out[2] / pixel_step(g);  // that are neighbours, or one more
    if (steps && pixels > 0 && pixels % 7 == 0) return Rows{channels_of_two_rows<7, 3, 1, T>};
    if (steps && pixels > 0 && pixels % 5 == 0) return Rows{channels_of_two_rows<5, 3, 1, T>};
  }
  if constexpr (kMakesTwoRows) {
    if constexpr (std::is_same_v<T, float>)
      if (g.kernel[2] == 5) return Rows{channels_of_two_rows<kPairPixels, 5, 1, T>};
    return g.stride[2] == 1 ? Rows{channels_of_two_rows<kPairPixels, 3, 1, T>}
                            : Rows{channels_of_two_rows<kPairPixels, 3, 2, T>};
  }
  return Rows{};
}

/// False where filled_level() takes other vectors for channels that don't fill one.
constexpr bool kMayHaveFewChannels = HWY_MAX_BYTES < 64;

/// Rows [first, last) of output pixels, channels-last.
template <class T>
void rows_of_pixels(const ConvShape& g, const DepthwiseImage& x, const DepthwiseFilter& f, int64_t first, int64_t last,
                    T* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t n = g.all_in(), full = n / lanes * lanes;
  // Channels whose filters stay in the level-1 cache.
  constexpr int64_t kMostBlock = 128, kFilterFloats = 4096;
  const int64_t block = std::clamp(kFilterFloats / g.taps() / lanes * lanes, lanes, std::max(lanes, kMostBlock));
  const auto pair = pair_rows<T>(g);
  const int64_t step = row_step(g);
  for (int64_t r = first; r < std::min(first + step, last); ++r)
    for (int64_t oy = r, rows = 0; oy < last; oy += rows * step) {
      T* const to = y + (oy - first) * g.out[2] * n;
      if constexpr (kMayHaveFewChannels)
        if (n < lanes) {
          rows = 1;
          if constexpr (kMaskedLoads)
            channels(PartVector<D>{d, hn::FirstN(d, static_cast<size_t>(n))}, g, x, f, oy, 0, n, to);
          else
            channels(WholeVector<hn::CappedTag<float, 1>>{}, g, x, f, oy, 0, n, to);
          continue;
        }
      rows = rows_at_once(g, oy, last);
      const auto make = [&](int64_t c0, int64_t c1) HWY_ATTR {
        if (rows == 2)
          pair(g, x, f, oy, c0, c1, to);
        else
          channels(Whole{}, g, x, f, oy, c0, c1, to);
      };
      for (int64_t c = 0; c < full; c += block) make(c, std::min(c + block, full));
      if (full < n) make(n - lanes, n);  // some channels are made twice
    }
}
void depthwise_rows(const ConvShape& g, const DepthwiseImage& x, const DepthwiseFilter& f, int64_t first, int64_t last,
                    float* y) {
  rows_of_pixels(g, x, f, first, last, y);
}

#if HWY_TARGET == HWY_AVX3
/// As depthwise_rows() in bfloat16. Precondition: windows of channels_of_pixels() in bfloat16; channels fill vectors.
void depthwise_rows_bf16(const ConvShape& g, const DepthwiseImage& x, const DepthwiseFilter& f, int64_t first,
                         int64_t last, float* y) {
  rows_of_pixels(g, x, f, first, last, reinterpret_cast<uint16_t*>(y));
}
#endif

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
  return spec.packs.get(DepthwiseNhwcKey{{g, *spec.constant(1), spec.constant(2)}}, [&] {
    const Tensor weights = spec.constant(1)->read_once();
    const auto* const filter = weights.data<float>();
    const float* bias = spec.has(2) ? spec.constant(2)->data<float>() : nullptr;
    auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>((g.taps() + 1) * stride) * sizeof(float));
    float* to = packed->data<float>();
    const int64_t filters = weights.elements() / g.taps();
    for (int64_t c = 0; c < g.groups; ++c) {
      const int64_t o = c % filters;
      to[c] = bias ? bias[o] : 0.0f;
      for (int64_t t = 0; t < g.taps(); ++t) to[(t + 1) * stride + c] = filter[o * g.filter_o + t * g.filter_s];
    }
    release_pages(weights);
    return packed;
  });
}

/// Slices [first, last) of the window of output slice z, which lie inside the volume: the first is slice `at`.
struct SeenSlices {
  int64_t first, last, at;
  SeenSlices(const ConvShape& g, int64_t z) {
    std::tie(first, last) = taps_inside(g, 0, z);
    at = first < last ? z * g.stride[0] - g.pad[0] + first * g.dilation[0] : 0;
  }
};

/// Output rows of a volume that are made of all slices before the next ones: the lines under those of one slice stay in
/// the level-2 cache.
int64_t rows_of_band(const ConvShape& g) {
  constexpr int64_t kFloats = 96 * 1024;
  const int64_t lines = kFloats / (g.kernel[0] * g.in[2] * g.all_in()), beyond = (g.kernel[1] - 1) * g.dilation[1];
  return std::max((lines - beyond) / g.stride[1] / 2 * 2, 2 * g.dilation[1]);
}

/// The convolution of as many neighbours as one pixel as make its channels whole vectors, where the windows are one
/// column that is all of a line.
ConvShape joined_pixels(ConvShape g) {
  constexpr int64_t kLanes = 16;
  const int64_t n = kLanes / std::gcd(g.groups, kLanes);
  if (g.kernel[2] != 1 || g.stride[2] != 1 || g.pad[2] != 0 || g.in[2] != g.out[2] || g.in[2] % n != 0) return g;
  g.groups *= n;
  g.in[2] /= n;
  g.out[2] /= n;
  return g;
}

/// The level whose vectors so many channels fill, of those that give the same bits.
Isa filled_level(Isa isa, int64_t channels) {
  constexpr int64_t kLanes = 16;  // of AVX-512
  return isa.has(IsaFeature::kAvx512) && channels < kLanes ? Isa::kAvx2 : isa;
}

class DepthwiseNhwcF32 final : public Kernel, public RowStage {
 public:
  DepthwiseNhwcF32(const ConvShape& g, const KernelSpec& spec)
      : g_(joined_pixels(g)),
        act_(spec.attrs<ConvAttrs>().act),
        stride_(round_up(g_.groups, 16)),
        packed_(pack_depthwise(spec, g_, stride_)),
        rows_(SMELT_FOR_LEVEL(filled_level(spec.isa, g_.groups), depthwise_rows)),
        has_bf16_(spec.isa.has(IsaFeature::kBf16)) {}
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    const EpilogueRun epilogue(epilogue_, ctx);
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t most = g_.planar() ? g_.out[1] : rows_of_band(g_), line_out = g_.out[2] * g_.all_out();
    const int64_t slice = g_.in[1] * g_.in[2] * g_.all_in();
    const int64_t threads = ctx.threads().threads();
    if (g_.planar() && g_.batch * g_.out[1] < threads) {
      parts_of_rows(ctx.threads(), x, epilogue ? &epilogue : nullptr, y);
      return Ok();
    }
    // Threads get as many rows each: those whose pixels they made, and few of others.
    ranges_in_slots(ctx.threads(), threads, g_.batch * g_.out[1], [&](int64_t begin, int64_t end, int64_t) {
      for (int64_t r = begin, n = 0; r < end; r += n) {
        const int64_t image = r / g_.out[1], row = r % g_.out[1];
        n = std::min({end - r, g_.out[1] - row, most});
        for (int64_t z = 0; z < g_.out[0]; ++z) {
          const SeenSlices seen(g_, z);
          rows(g_,
               {ImageRows::of(x + (image * g_.in[0] + seen.at) * slice, g_), seen.first, seen.last,
                g_.dilation[0] * slice},
               row, row + n, epilogue ? &epilogue : nullptr,
               y + ((image * g_.out[0] + z) * g_.out[1] + row) * line_out);
        }
      }
    });
    return Ok();
  }

  RowStage* row_stage() override { return g_.planar() ? this : nullptr; }
  Reads reads() const override { return Reads::kRing; }
  const ConvShape& shape() const override { return g_; }
  const EpilogueF32& row_epilogue() const override { return epilogue_; }
#if defined(__x86_64__)
  bool can_make_words() const override {
    constexpr int64_t kLanes = 16;
    const bool fits = g_.kernel[2] == 3 && g_.dilation[2] == 1 && g_.stride[2] <= 2 && g_.groups % kLanes == 0;
    return has_bf16_ && fits && clamps(act_) && !epilogue_;
  }
  void make_words() override {
    if constexpr (builds_cpu_kernel("Conv", "conv_nhwc_bf16")) rows_ = &N_AVX3::depthwise_rows_bf16;
  }
#endif
  void rows(const ImageRows& x, int64_t first, int64_t last, const EpilogueRun* epilogue, std::byte*,
            std::byte* y) const override {
    rows(g_, {x}, first, last, epilogue, reinterpret_cast<float*>(y));
  }

 private:
  /// Threads share the pixels of rows: each part of a row is the row of a narrower image.
  void parts_of_rows(ThreadPool& pool, const float* x, const EpilogueRun* epilogue, float* y) const {
    constexpr int64_t kLeast = 16;  // pixels
    const int64_t lines = g_.batch * g_.out[1], most = std::max<int64_t>(g_.out[2] / kLeast, 1);
    const int64_t parts = std::min(ceil_div(pool.threads(), lines), most);
    pool.parallel_for(lines * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t line = i / parts, row = line % g_.out[1], image = line / g_.out[1];
        const int64_t first = g_.out[2] * (i % parts) / parts, last = g_.out[2] * (i % parts + 1) / parts;
        ConvShape part = g_;
        part.out[2] = last - first;
        part.pad[2] -= first * g_.stride[2];
        rows(part, {ImageRows::of(x + image * g_.in_pixels() * g_.all_in(), g_)}, row, row + 1, epilogue,
             y + (line * g_.out[2] + first) * g_.all_out());
      }
    });
  }
  /// g: of the image, or of a part of one row.
  void rows(const ConvShape& g, const DepthwiseImage& x, int64_t first, int64_t last, const EpilogueRun* epilogue,
            float* y) const {
    const Bounds bounds = activation_bounds(act_);
    const float* base = packed_->data<float>();
    const DepthwiseFilter filter{base, base + stride_, stride_, bounds.lo, bounds.hi};
    const int64_t few =
        clamps(act_) && !epilogue ? last - first : 2 * g.dilation[1];  // rows that are near when they are finished
    for (int64_t row = first, n = 0; row < last; row += n, y += n * g.out[2] * g.all_out()) {
      n = std::min(few, last - row);
      rows_(g, x, filter, row, row + n, y);
      apply_activation(act_, y, 1, n * g.out[2] * g.all_out(), 0);
      if (epilogue) (*epilogue)(y, n * g.out[2], g.all_out(), g.all_out());
    }
  }

  ConvShape g_;
  Activation act_;
  EpilogueF32 epilogue_;
  int64_t stride_;
  Packed packed_;
  void (*rows_)(const ConvShape&, const DepthwiseImage&, const DepthwiseFilter&, int64_t, int64_t, float*);
  bool has_bf16_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_nhwc_f32(const KernelSpec& spec) {
  auto g = ConvShape::in_lines(spec);
  if (!g || !g->depthwise() || g->c_out != 1 || spec.outputs[0].shape.elements() == 0) return nullptr;
  // Of windows of one pixel of each slice, slices are long lines.
  constexpr int64_t kFloats = 96 * 1024;  // that stay in the level-2 cache
  if (const auto volume = ConvShape::make(spec);
      volume->kernel[0] > 1 && g->kernel[1] > 1 && g->kernel[1] * g->in[2] * g->all_in() > kFloats)
    g = volume;
  if (g->kernel[0] * (g->kernel[1] + 2) > DepthwiseImage::kMostLines) return spec.refuse("windows of many lines");
  return std::make_unique<DepthwiseNhwcF32>(*g, spec);
}

}  // namespace smelt
#endif
