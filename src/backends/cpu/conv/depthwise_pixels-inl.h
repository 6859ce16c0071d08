// Output pixels of depthwise convolutions of channels-last images, some neighbours at a time in registers. Include
// after hwy/highway.h in files that are compiled once a target.
#ifndef SMELT_CPU_DEPTHWISE_FILTER
#define SMELT_CPU_DEPTHWISE_FILTER
#include <cstdint>

#include "backends/cpu/conv/row_stage.h"
namespace smelt {
/// Rows of the slices [first, last) of a window: of the first one, `slice` floats before those of the next. An image is
/// the only slice.
struct DepthwiseImage {
  static constexpr int64_t kMostLines = 96;  ///< of windows of two rows
  ImageRows rows;
  int64_t first = 0, last = 1, slice = 0;
};
/// Filters as [taps][channels] behind one row of bias; rows are `stride` floats apart.
struct DepthwiseFilter {
  const float* bias;
  const float* taps;
  int64_t stride;
  float lo, hi;
};
/// A line that windows see, from where its first column would lie if there were as many in front of the image, and the
/// row of the filter for it.
struct SeenLine {
  const float* x;
  const float* taps;
};
}  // namespace smelt
#endif

#if defined(SMELT_CPU_DEPTHWISE_PIXELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_DEPTHWISE_PIXELS_INL_H
#undef SMELT_CPU_DEPTHWISE_PIXELS_INL_H
#else
#define SMELT_CPU_DEPTHWISE_PIXELS_INL_H
#endif

#include <algorithm>
#include <type_traits>

#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using Whole = WholeVector<D>;

/// What of a row of windows lies inside the image, or in slices of a volume: lines, and columns [x0, x1) from the first
/// window's first.
struct Inside {
  const SeenLine *lines, *end;
  int64_t x0, x1;
};

/// Stores a vector of results: float32, or bfloat16 (uint16_t).
template <class Part, class V>
HWY_INLINE void put(const Part& part, V v, float* y) {
  part.store(v, y);
}
#if HWY_TARGET == HWY_AVX3
template <class V>
HWY_INLINE void put(const Whole& /*part*/, V v, uint16_t* y) {
  store_bf16(v, y);
}
#endif

/// PX neighbouring output pixels of one vector of channels. x: of the first pixel's first tap in its line.
template <int PX, int KW, int STRIDE, class Part, class T>
HWY_INLINE void pixels(Part part, int64_t x, int64_t pixel, const DepthwiseFilter& f, int64_t c, const Inside& inside,
                       T* y) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  V acc[PX];
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  constexpr int kColumns = (PX - 1) * STRIDE + KW;
  for (const SeenLine* line = inside.lines; line != inside.end; ++line) {
    const float* const row = line->x + x + c;
    const float* const taps = line->taps + c;
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
  for (int p = 0; p < PX; ++p) put(part, clamp(acc[p], hn::Set(d, f.lo), hn::Set(d, f.hi)), y + p * pixel);
}

/// True where registers hold more than the neighbours that all levels make at once.
constexpr bool kManyRegisters = HWY_MAX_BYTES >= 64 || HWY_ARCH_X86 == 0;
/// The least neighbours in each of two rows of output pixels that are made at once.
constexpr int kPairPixels = 4;

/// As pixels() for PX neighbours in each of two rows of output pixels, whose windows of K lines lie inside the image.
/// The lines of a slice are those of both rows' windows. y_line: from the one to the other.
template <int PX, int K, int STRIDE, class Part, class T>
HWY_INLINE void pixels_of_two_rows(Part part, int64_t x, int64_t pixel, const DepthwiseFilter& f, int64_t c,
                                   const Inside& inside, T* y, int64_t y_line) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  const int64_t x0 = inside.x0, x1 = inside.x1;
  V acc[2][PX];
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) acc[0][p] = acc[1][p] = hn::LoadU(d, f.bias + c);
  constexpr int kColumns = (PX - 1) * STRIDE + K, kLines = STRIDE + K;
  for (const SeenLine* line = inside.lines; line != inside.end; line += kLines) {
    const float* const taps = line->taps + c;
#pragma GCC unroll 7
    for (int i = 0; i < kLines; ++i) {
      const float* const row = line[i].x + x + c;
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
  }
  y += c;
#pragma GCC unroll 2
  for (int r = 0; r < 2; ++r, y += y_line)
#pragma GCC unroll 7
    for (int p = 0; p < PX; ++p) put(part, clamp(acc[r][p], hn::Set(d, f.lo), hn::Set(d, f.hi)), y + p * pixel);
}

/// Computes at most `count` pixels, of channels [c0, c1).
template <int PX, int KW, int STRIDE, class Part, class T>
void pixels_of_channels(Part part, int64_t count, int64_t x, int64_t pixel, const DepthwiseFilter& f, int64_t c0,
                        int64_t c1, const Inside& inside, T* y) {
  if constexpr (PX > 1)
    if (count < PX) return pixels_of_channels<PX - 1, KW, STRIDE>(part, count, x, pixel, f, c0, c1, inside, y);
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(part.d)))
    pixels<PX, KW, STRIDE>(part, x, pixel, f, c, inside, y);
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
void large_pixels_of_channels(int64_t x, int64_t pixel, const DepthwiseFilter& f, int64_t c0, int64_t c1,
                              const Inside& inside, float* y) {
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(D())))
    pixels<kLargePixels, KW, 1>(Whole{}, x, pixel, f, c, inside, y);
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

/// Adds KW columns of a row of windows to kLargePixels pixels: those from the first one's column `first` on. row, taps:
/// of that column.
template <int KW>
HWY_INLINE void add_columns(hn::Vec<D> (&acc)[kLargePixels], const float* row, int64_t pixel, const float* taps,
                            int64_t stride, int64_t first, const Inside& inside) {
  const D d;
  hn::Vec<D> wv[KW];
#pragma GCC unroll 4
  for (int k = 0; k < KW; ++k) wv[k] = hn::LoadU(d, taps + k * stride);
#pragma GCC unroll 10
  for (int column = 0; column < kLargePixels - 1 + KW; ++column) {
    if (first + column < inside.x0 || first + column >= inside.x1) continue;
    const auto v = hn::LoadU(d, row + column * pixel);
#pragma GCC unroll 7
    for (int p = 0; p < kLargePixels; ++p)
      if (column >= p && column < p + KW) acc[p] = hn::MulAdd(v, wv[column - p], acc[p]);
  }
}

/// As pixels() for kLargePixels pixels of windows of any width, stride 1.
HWY_INLINE void pixels_of_wide_windows(int64_t x, int64_t pixel, int64_t width, const DepthwiseFilter& f, int64_t c,
                                       const Inside& inside, float* y) {
  constexpr int kColumns = 4;
  const D d;
  hn::Vec<D> acc[kLargePixels];
#pragma GCC unroll 7
  for (int p = 0; p < kLargePixels; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  // Columns that some pixel has inside the image.
  const int64_t k0 = std::max<int64_t>(0, inside.x0 - (kLargePixels - 1)), k1 = std::min(width, inside.x1);
  for (const SeenLine* line = inside.lines; line != inside.end; ++line) {
    const float* const row = line->x + x + c;
    const float* const taps = line->taps + c;
    int64_t k = k0;
    for (; k + kColumns <= k1; k += kColumns)
      add_columns<kColumns>(acc, row + k * pixel, pixel, taps + k * f.stride, f.stride, k, inside);
    for (; k < k1; ++k) add_columns<1>(acc, row + k * pixel, pixel, taps + k * f.stride, f.stride, k, inside);
  }
  y += c;
#pragma GCC unroll 7
  for (int p = 0; p < kLargePixels; ++p)
    hn::StoreU(clamp(acc[p], hn::Set(d, f.lo), hn::Set(d, f.hi)), d, y + p * pixel);
}

/// pixels_of_wide_windows() of channels [c0, c1).
void wide_windows_of_channels(int64_t x, int64_t pixel, int64_t width, const DepthwiseFilter& f, int64_t c0, int64_t c1,
                              const Inside& inside, float* y) {
  for (int64_t c = c0; c < c1; c += static_cast<int64_t>(hn::Lanes(D())))
    pixels_of_wide_windows(x, pixel, width, f, c, inside, y);
}

/// Windows of at least this width, stride 1, are made by pixels_of_wide_windows(), where kManyRegisters.
constexpr int64_t kWideWindow = 12;

/// Windows of any width, stride and dilation: taps of one output pixel are `tap` columns apart, first taps of
/// neighbouring ones `step` columns.
struct Windows {
  int64_t pixel, width, tap, step;
};

/// As pixels(). kWhole: all columns of the windows lie inside the image.
template <int PX, bool kWhole, class Part>
HWY_INLINE void wide_pixels(Part part, int64_t x, const Windows& g, const DepthwiseFilter& f, int64_t c,
                            const Inside& inside, float* y) {
  const auto d = part.d;
  using V = hn::Vec<decltype(part.d)>;
  V acc[PX];
#pragma GCC unroll 7
  for (int p = 0; p < PX; ++p) acc[p] = hn::LoadU(d, f.bias + c);
  for (const SeenLine* line = inside.lines; line != inside.end; ++line) {
    const float* const row = line->x + x + c;
    const float* taps = line->taps + c;
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
  for (int p = 0; p < PX; ++p) part.store(clamp(acc[p], hn::Set(d, f.lo), hn::Set(d, f.hi)), y + p * g.pixel);
}

/// As pixels_of_channels().
template <int PX, class Part>
void wide_pixels_of_channels(Part part, int64_t count, int64_t x, const Windows& g, const DepthwiseFilter& f,
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

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
