#include "backends/cpu/pool/plane_pools.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool/plane_pools.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"
#include "backends/cpu/core/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

struct Largest {
  static constexpr bool kNeighboursOfPixels = true;  ///< windows of neighbouring pixels are neighbours
  HWY_INLINE Largest of_pixels() const { return {}; }
  template <class D, class V>
  HWY_INLINE V begin(D, V v) const {
    return v;
  }
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Max(a, b);
  }
  template <class D, class V>
  HWY_INLINE V finish(D, V v, int64_t) const {
    return v;
  }
};
/// Of int8, or of uint8 whose sign bits are flipped on the way.
struct LargestByte : Largest {
  int8_t flipped;
  explicit LargestByte(int8_t bits) : flipped(bits) {}
  HWY_INLINE LargestByte of_pixels() const { return *this; }
  template <class D, class V>
  HWY_INLINE V begin(D d, V v) const {
    return hn::Xor(v, hn::Set(d, flipped));
  }
  template <class D, class V>
  HWY_INLINE V finish(D d, V v, int64_t) const {
    return hn::Xor(v, hn::Set(d, flipped));
  }
};
/// Sums of windows of a line, that become means of pixels.
struct Mean {
  static constexpr bool kNeighboursOfPixels = false;
  const float* scales;  ///< one a pixel
  float lo, hi;
  template <class D, class V>
  HWY_INLINE V begin(D, V v) const {
    return v;
  }
  template <class D, class V>
  HWY_INLINE V scaled(D d, V v, V by) const {
    return clamp(hn::Mul(v, by), hn::Set(d, lo), hn::Set(d, hi));
  }
  template <class D, class V>
  HWY_INLINE V finish(D d, V v, int64_t pixel) const {
    return scaled(d, v, hn::Set(d, scales[pixel]));
  }
  template <class V>
  HWY_INLINE V operator()(V a, V b) const {
    return hn::Add(a, b);
  }
};
/// Of neighbouring pixels, the first of them given.
struct MeanOfNeighbours : Mean {
  template <class D, class V>
  HWY_INLINE V finish(D d, V v, int64_t pixel) const {
    return scaled(d, v, hn::LoadU(d, scales + pixel));
  }
  HWY_INLINE Mean of_pixels() const { return *this; }
};

/// Stores the vector, of which `n` elements lie in front of the end of what may be written.
template <class D, class T>
HWY_INLINE void store_until(hn::Vec<D> v, D d, int64_t n, T* to) {
  if (n >= static_cast<int64_t>(hn::Lanes(d))) return hn::StoreU(v, d, to);
  T last[HWY_MAX_BYTES / sizeof(T)];
  hn::StoreU(v, d, last);
  std::copy_n(last, n, to);
}

/// Makes one line of n elements of those under a window. Writes whole vectors, and reads them up to x_end.
template <class T, class Op>
HWY_INLINE void merge_lines(const T* const* taps, int64_t count, int64_t n, const T* x_end, Op op, T* to) {
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    auto v = op.begin(d, hn::LoadU(d, taps[0] + i));
    for (int64_t k = 1; k < count; ++k) v = op(v, op.begin(d, hn::LoadU(d, taps[k] + i)));
    hn::StoreU(v, d, to + i);
  };
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t whole = x_end - taps[count - 1] >= n + lanes ? n : n - n % lanes;
  int64_t i = 0;
  if (count == 3) {
    const T *const first = taps[0], *const second = taps[1], *const third = taps[2];
    for (; i < whole; i += lanes) {
      const auto low = op(op.begin(d, hn::LoadU(d, first + i)), op.begin(d, hn::LoadU(d, second + i)));
      hn::StoreU(op(low, op.begin(d, hn::LoadU(d, third + i))), d, to + i);
    }
  } else {
    for (; i < whole; i += lanes) step(d, i);
  }
  for (; i < n; ++i) step(hn::CappedTag<T, 1>(), i);
}

/// n windows that lie side by side, their elements `step` apart. y: up to y_end whole vectors are written.
template <class T, class Op>
HWY_INLINE void neighbours(const T* line, int64_t count, int64_t step, int64_t n, Op op, T* y, const T* y_end) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const T* from = line + i;
    auto v = hn::LoadU(d, from);
    for (int64_t k = 1; k < count; ++k) v = op(v, hn::LoadU(d, from += step));
    store_until(op.finish(d, v, i), d, y_end - y - i, y + i);
  }
}

/// n windows that lie two elements apart.
template <class T, class Op>
HWY_INLINE void every_second(const T* line, int64_t count, int64_t step, int64_t n, Op op, T* y, const T* y_end) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < n; i += lanes) {
    const T* from = line + 2 * i;
    auto v = hn::ConcatEven(d, hn::LoadU(d, from + lanes), hn::LoadU(d, from));
    for (int64_t k = 1, at = step; k < count; ++k, at += step) {
      const T* const pair = from + (at & ~int64_t{1});
      const auto low = hn::LoadU(d, pair), high = hn::LoadU(d, pair + lanes);
      v = op(v, at & 1 ? hn::ConcatOdd(d, high, low) : hn::ConcatEven(d, high, low));
    }
    store_until(op.finish(d, v, i), d, y_end - y - i, y + i);
  }
}

/// Windows of a line of pixels.
template <class T, class Op>
HWY_INLINE void pixels(const PoolShape& g, Op op, const T* line, T* y, const T* y_end) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t c = g.channels, tap = g.dims[2].dilation * c, pixel = g.dims[2].stride * c, count = g.dims[2].kernel;
  for (int64_t x = 0; x < g.dims[2].out; ++x, line += pixel, y += c)
    for (int64_t i = 0; i < c; i += lanes) {
      const T* from = line + i;
      auto v = hn::LoadU(d, from);
      for (int64_t k = 1; k < count; ++k) v = op(v, hn::LoadU(d, from += tap));
      store_until(op.finish(d, v, x), d, y_end - y - i, y + i);
    }
}

/// Sets taps to the lines of an image under the window of line `out` of the output and returns how many they are.
template <class T>
HWY_INLINE int64_t lines_under_window(const PoolShape& g, const T* x, int64_t n, const int64_t out[2], const T** taps) {
  const WindowDim &z = g.dims[0], &h = g.dims[1];
  if (z.kernel > 1 || h.dilation > 1) return window_lines(g, x, n, out, taps);
  const int64_t y = out[1] * h.stride - h.pad_begin, begin = std::max<int64_t>(y, 0),
                end = std::min(y + h.kernel, h.in);
  const T* from = x + ((out[0] * z.stride - z.pad_begin) * h.in + begin) * n;
  for (int64_t i = begin; i < end; ++i, from += n) *taps++ = from;
  return end - begin;
}

/// of_line(line of output) gives op of neighbours, or of pixels.
template <class T, class F>
HWY_INLINE void pool_lines(const PoolShape& g, const PlaneRun<T>& run, T padding, F&& of_line) {
  const WindowDim& w = g.dims[2];
  const int64_t c = g.channels, n = w.in * c, out = w.out * c, left = std::max<int64_t>(w.pad_begin, 0) * c;
  const int64_t behind = left + n,
                right = std::max(behind, left + ((w.out - 1) * w.stride + w.extent() - w.pad_begin) * c);
  const int64_t step = plane_line_elements(g), together = plane_lines(g, sizeof(T));
  int64_t at[2] = {run.first / g.dims[1].out, run.first % g.dims[1].out};
  T* y = run.y + run.first * out;
  for (int64_t index = run.first; index < run.last; index += together) {
    const int64_t here = std::min(together, run.last - index);
    T* line = run.lines;
    for (int64_t i = 0; i < here; ++i, line += step) {
      const int64_t count = lines_under_window(g, run.x, n, at, run.taps);
      if (++at[1] == g.dims[1].out) {
        at[1] = 0;
        ++at[0];
      }
      merge_lines(run.taps, count, n, run.x_end, of_line(index + i), line + left);
      for (int64_t e = 0; e < left; ++e) line[e] = padding;
      for (int64_t e = behind; e < right; ++e) line[e] = padding;
    }
    line = run.lines + left - w.pad_begin * c;
    for (int64_t i = index; i < index + here; ++i, line += step, y += out) {
      const auto op = of_line(i);
      if (w.stride == 1 && (c == 1 || op.kNeighboursOfPixels))
        neighbours(line, w.kernel, w.dilation * c, out, op, y, run.y_end);
      else if (c == 1 && w.stride == 2)
        every_second(line, w.kernel, w.dilation, out, op, y, run.y_end);
      else
        pixels(g, op.of_pixels(), line, y, run.y_end);
    }
  }
}

void max_f32(const PoolShape& g, const PlaneRun<float>& run) {
  pool_lines(g, run, -std::numeric_limits<float>::infinity(), [](int64_t) { return Largest(); });
}
void max_i8(const PoolShape& g, bool is_signed, const PlaneRun<int8_t>& run) {
  const auto flipped = static_cast<int8_t>(is_signed ? 0 : -128);
  pool_lines<int8_t>(g, run, -128, [&](int64_t) { return LargestByte{flipped}; });
}
void mean_f32(const PoolShape& g, const MeanScales& scales, const PlaneRun<float>& run) {
  pool_lines(g, run, 0.0f, [&](int64_t line) { return MeanOfNeighbours{{scales.lines[line], scales.lo, scales.hi}}; });
}

bool has_nan(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto all = hn::Zero(d);  // NaN where one is
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) all = hn::Or(all, hn::VecFromMask(d, hn::IsNaN(hn::LoadU(d, x + i))));
  bool found = !hn::AllFalse(d, hn::IsNaN(all));
  for (; i < n; ++i) found = found || x[i] != x[i];
  return found;
}

PlanePools make_plane_pools() { return {max_f32, max_i8, mean_f32, has_nan}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

int64_t plane_line_elements(const PoolShape& s) {
  constexpr int64_t kSlack = 192;  // whole vectors are read and written, of every second element two
  const WindowDim& w = s.dims[2];
  return (std::max<int64_t>(w.pad_begin, 0) + std::max(w.in, (w.out - 1) * w.stride + w.extent() - w.pad_begin) + 2) *
             s.channels +
         kSlack;
}

int64_t plane_lines(const PoolShape& s, int64_t bytes) {
  constexpr int64_t kNearest = 16 * 1024, kMost = 16;
  return std::clamp<int64_t>(kNearest / (plane_line_elements(s) * bytes), 1, kMost);
}

const PlanePools& plane_pools(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_plane_pools)(); });
}

}  // namespace smelt
#endif
