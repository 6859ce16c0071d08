#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/common/activated.h"
#include "ops/common/operands.h"
#include "ops/common/output_type.h"
#include "ops/common/requantizer.h"
#include "ops/conv/conv_integer.h"
#include "ops/pool/geometry.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// The taps of one window that lie in the image.
struct Taps {
  int64_t inside = 0;            ///< entries used in the arrays
  int64_t counted = 0;           ///< taps in the image or its explicit padding
  int64_t* index = nullptr;      ///< flattened image position
  int64_t* in_window = nullptr;  ///< column-major index in the window
};

/// Taps of one dimension that lie in the image.
struct TapRange {
  int64_t begin = 0, end = 0;
};

void collect_taps(const Window& w, const int64_t* out, Taps& taps) {
  std::array<TapRange, Shape::kMaxRank> range{};
  std::array<int64_t, Shape::kMaxRank> tap{};
  int64_t inside = 1;
  taps.counted = 1;
  for (int i = 0; i < w.rank; ++i) {
    const auto u = static_cast<size_t>(i);
    const WindowDim& d = w.dims[u];
    const int64_t first = out[i] * d.stride - d.pad_begin;
    const auto taps_below = [&](int64_t limit) {
      return limit <= first ? 0 : std::min(d.kernel, ceil_div(limit - first, d.dilation));
    };
    range[u] = {taps_below(0), taps_below(d.in)};
    tap[u] = range[u].begin;
    inside *= range[u].end - range[u].begin;
    taps.counted *= taps_below(d.in + std::max<int64_t>(d.pad_end, 0));
  }
  taps.inside = inside;
  for (int64_t k = 0; k < inside; ++k) {
    int64_t index = 0, column = 0, step = 1;
    for (int i = 0; i < w.rank; ++i) {
      const auto u = static_cast<size_t>(i);
      const WindowDim& d = w.dims[u];
      index = index * d.in + out[i] * d.stride - d.pad_begin + tap[u] * d.dilation;
      column += tap[u] * step;
      step *= d.kernel;
    }
    taps.index[k] = index;
    taps.in_window[k] = column;
    for (int i = w.rank - 1; i >= 0; --i) {
      const auto u = static_cast<size_t>(i);
      if (++tap[u] < range[u].end) break;
      tap[u] = range[u].begin;
    }
  }
}

/// Allocates scratch memory for the taps of the largest window.
Status allocate_scratch(KernelContext& ctx, const Window& w, Taps& taps) {
  int64_t n = 1;
  for (int i = 0; i < w.rank; ++i)
    n *= std::min(w.dims[static_cast<size_t>(i)].kernel, w.dims[static_cast<size_t>(i)].in);
  SMELT_ASSIGN(taps.index, scratch_array<int64_t>(ctx, n));
  SMELT_ASSIGN(taps.in_window, scratch_array<int64_t>(ctx, n));
  return Ok();
}

/// Calls body(flattened output position, taps) for all windows.
template <class F>
void for_windows(const Window& w, Taps& taps, F&& body) {
  std::array<int64_t, Shape::kMaxRank> out{};
  for (int64_t o = 0, n = w.out_positions(); o < n; ++o) {
    collect_taps(w, out.data(), taps);
    body(o, static_cast<const Taps&>(taps));
    for (int i = w.rank - 1; i >= 0 && ++out[static_cast<size_t>(i)] == w.dims[static_cast<size_t>(i)].out; --i)
      out[static_cast<size_t>(i)] = 0;
  }
}

template <class T>
bool beats(T v, T best) {
  if constexpr (std::is_floating_point_v<T>) return v > best || std::isnan(v);
  return v > best;
}

/// Largest element of every window and its tap (-1: none), channels-last.
template <class T>
void max_windows(const PoolGeometry& g, const T* image, Taps& taps, T* best, int64_t* winner, int64_t* window_winner) {
  const int64_t channels = g.channels;
  constexpr T lowest =
      std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  for_windows(g.window, taps, [&](int64_t o, const Taps& t) {
    T* to = best + o * channels;
    int64_t* at = winner ? winner + o * channels : nullptr;
    int64_t* in_window = window_winner ? window_winner + o * channels : nullptr;
    std::fill_n(to, channels, lowest);
    if (at) std::fill_n(at, channels, t.inside ? t.index[0] : 0);
    if (in_window) std::fill_n(in_window, channels, t.inside ? t.in_window[0] : 0);
    for (int64_t k = 0; k < t.inside; ++k) {
      const T* x = image + t.index[k] * channels;
      for (int64_t c = 0; c < channels; ++c)
        if (beats(x[c], to[c])) {
          to[c] = x[c];
          if (at) at[c] = t.index[k];
          if (in_window) in_window[c] = t.in_window[k];
        }
    }
  });
}

/// Mean, p-norm or root of the mean square of every window, channels-last. `sum`: scratch for one value a channel.
template <class T>
void mean_windows(const PoolGeometry& g, const PoolAttrs& a, const T* image, Taps& taps, double* sum, T* out) {
  const int64_t channels = g.channels;
  for_windows(g.window, taps, [&](int64_t o, const Taps& t) {
    std::fill_n(sum, channels, 0.0);
    for (int64_t k = 0; k < t.inside; ++k) {
      const T* x = image + t.index[k] * channels;
      if (a.kind == PoolKind::kAverage) {
        for (int64_t c = 0; c < channels; ++c) sum[c] += static_cast<double>(x[c]);
      } else if (a.p == 2 || a.mean_square) {
        for (int64_t c = 0; c < channels; ++c) sum[c] += static_cast<double>(x[c]) * static_cast<double>(x[c]);
      } else {
        for (int64_t c = 0; c < channels; ++c) sum[c] += std::pow(std::fabs(static_cast<double>(x[c])), a.p);
      }
    }
    double divisor = static_cast<double>(t.inside);
    if (a.kind == PoolKind::kAverage && a.count_include_pad) divisor = static_cast<double>(t.counted);
    if (a.kind == PoolKind::kAverage && a.divisor_override) divisor = static_cast<double>(a.divisor_override);
    if (divisor == 0) divisor = 1;
    T* to = out + o * channels;
    for (int64_t c = 0; c < channels; ++c) {
      double v = sum[c];
      if (a.kind == PoolKind::kAverage)
        v /= divisor;
      else if (a.mean_square)
        v = std::sqrt(v / divisor);
      else
        v = a.p == 2 ? std::sqrt(v) : a.p == 1 ? v : std::pow(v, 1 / a.p);
      to[c] = static_cast<T>(v);
    }
  });
}

/// TFLite's integer mean: rounded half away from zero, padding never counts.
void integer_mean_windows(const PoolGeometry& g, const int64_t* image, Taps& taps, int64_t* sum, int64_t* out) {
  const int64_t channels = g.channels;
  for_windows(g.window, taps, [&](int64_t o, const Taps& t) {
    std::fill_n(sum, channels, int64_t{0});
    for (int64_t k = 0; k < t.inside; ++k)
      for (int64_t c = 0; c < channels; ++c) sum[c] += image[t.index[k] * channels + c];
    const int64_t n = std::max<int64_t>(t.inside, 1);
    for (int64_t c = 0; c < channels; ++c)
      out[o * channels + c] = sum[c] > 0 ? (sum[c] + n / 2) / n : (sum[c] - n / 2) / n;
  });
}

/// The entry of output 1 for the largest element of one window.
struct IndexRule {
  const PoolAttrs& a;
  const PoolGeometry& g;
  int64_t operator()(int64_t n, int64_t c, int64_t index, int64_t in_window) const {
    const int64_t plane = g.window.in_positions();
    switch (a.index) {
      case PoolAttrs::Index::kPlane:
        return index;
      case PoolAttrs::Index::kWindowColumn:
        return in_window;
      case PoolAttrs::Index::kTensorColumn: {
        int64_t column = 0, rest = index, step = plane;
        for (int i = g.window.rank - 1; i >= 0; --i) {
          const int64_t size = g.window.dims[static_cast<size_t>(i)].in;
          step /= size;
          column += rest % size * step;
          rest /= size;
        }
        return (n * g.channels + c) * plane + column;
      }
      default:
        return a.layout == Layout::kChannelsFirst ? (n * g.channels + c) * plane + index
                                                  : (n * plane + index) * g.channels + c;
    }
  }
};

struct Job {
  KernelContext& ctx;
  const PoolAttrs& a;
  const PoolGeometry& g;
  int64_t in_positions, out_positions;
  Taps taps;
};

template <class T>
Result<const T*> image_of(Job& job, const T* x) {
  if (job.a.layout == Layout::kChannelsLast || job.in_positions == 1 || job.g.channels == 1) return x;
  SMELT_ASSIGN(T* const copy, scratch_array<T>(job.ctx, job.g.batch * job.in_positions * job.g.channels));
  to_channels_last(x, job.g.batch, job.in_positions, job.g.channels, copy);
  return static_cast<const T*>(copy);
}

/// Indices, channels-last, become output 1.
Status store_indices(Job& job, const int64_t* indices) {
  return store_image(job.ctx, reinterpret_cast<const uint64_t*>(indices), job.g.batch, job.out_positions,
                     job.g.channels, job.a.layout, job.ctx.output(1));
}

template <class T>
Result<T*> pooled(Job& job, const T* x) {
  SMELT_ASSIGN(const T* const image, image_of(job, x));
  const int64_t in = job.in_positions * job.g.channels, out = job.out_positions * job.g.channels;
  SMELT_ASSIGN(T* const y, scratch_array<T>(job.ctx, job.g.batch * out));
  const bool wants_index = job.a.kind == PoolKind::kMax && job.ctx.wants(1);
  int64_t *winner = nullptr, *in_window = nullptr;
  if (wants_index) {
    SMELT_ASSIGN(winner, scratch_array<int64_t>(job.ctx, job.g.batch * out));
    SMELT_ASSIGN(in_window, scratch_array<int64_t>(job.ctx, out));
  }
  SMELT_ASSIGN(double* const sum, scratch_array<double>(job.ctx, job.g.channels));
  const IndexRule rule{job.a, job.g};
  for (int64_t n = 0; n < job.g.batch; ++n) {
    SMELT_TRY(job.ctx.tick());
    if (job.a.kind != PoolKind::kMax) {
      mean_windows(job.g, job.a, image + n * in, job.taps, sum, y + n * out);
      continue;
    }
    int64_t* mine = winner ? winner + n * out : nullptr;
    max_windows(job.g, image + n * in, job.taps, y + n * out, mine, in_window);
    if (mine)
      for (int64_t i = 0; i < out; ++i) mine[i] = rule(n, i % job.g.channels, mine[i], in_window[i]);
  }
  if (wants_index) SMELT_TRY(store_indices(job, winner));
  return y;
}

/// Bounds of a fused activation as quantized values of the output, or the type's range.
struct QuantizedBounds {
  int64_t lo, hi;
};
QuantizedBounds quantized_bounds(const Tensor& y, const Activation& act) {
  QuantizedBounds s{int_min(y.dtype()), int_max(y.dtype())};
  if (!y.quant() || y.quant()->scales.empty()) return s;
  const Bounds b = activation_bounds(act);
  const float scale = y.quant()->scale();
  const int64_t zero = y.quant()->zero_point();
  const auto quantized_bound = [&](float bound) {
    const double q = std::round(bound / scale) + static_cast<double>(zero);
    return static_cast<int64_t>(std::clamp(q, static_cast<double>(s.lo), static_cast<double>(s.hi)));
  };
  return {quantized_bound(b.lo), quantized_bound(b.hi)};
}

/// Maxima of 16-bit integers, channels-last, where they lie.
Status max_of_int16(Job& job, const QuantizedBounds& b) {
  const auto lo = static_cast<int16_t>(b.lo), hi = static_cast<int16_t>(std::max(b.lo, b.hi));
  const int64_t channels = job.g.channels;
  const auto* x = job.ctx.input(0).data<int16_t>();
  auto* y = job.ctx.output(0).data<int16_t>();
  for (int64_t n = 0; n < job.g.batch; ++n, x += job.in_positions * channels, y += job.out_positions * channels) {
    SMELT_TRY(job.ctx.tick());
    for_windows(job.g.window, job.taps, [&](int64_t o, const Taps& t) {
      int16_t* const best = y + o * channels;
      std::fill_n(best, channels, lo);
      for (int64_t k = 0; k < t.inside; ++k) {
        const int16_t* const from = x + t.index[k] * channels;
        for (int64_t c = 0; c < channels; ++c) best[c] = std::max(best[c], std::min(from[c], hi));
      }
    });
  }
  return Ok();
}

/// Maxima of integers, TFLite's means of 8- and 16-bit ones, and means of longer ones, rounded toward zero as
/// PyTorch's.
Status pool_integers(Job& job) {
  const Tensor& x = job.ctx.input(0);
  Tensor& y = job.ctx.output(0);
  const QuantizedBounds b = quantized_bounds(y, job.a.act);
  if (job.a.kind == PoolKind::kMax && x.dtype() == DType::kI16 && y.dtype() == DType::kI16 &&
      job.a.layout == Layout::kChannelsLast && !job.ctx.wants(1))
    return max_of_int16(job, b);
  SMELT_ASSIGN(const uint64_t* const integers, operand<uint64_t>(job.ctx, x));
  const auto* xs = reinterpret_cast<const int64_t*>(integers);
  int64_t* ys = nullptr;
  if (job.a.kind == PoolKind::kMax || bit_width(x.dtype()) > 16) {
    SMELT_ASSIGN(ys, pooled<int64_t>(job, xs));
  } else {
    SMELT_ASSIGN(const int64_t* const image, image_of(job, xs));
    SMELT_ASSIGN(ys, scratch_array<int64_t>(job.ctx, y.elements()));
    SMELT_ASSIGN(int64_t* const sum, scratch_array<int64_t>(job.ctx, job.g.channels));
    for (int64_t n = 0; n < job.g.batch; ++n)
      integer_mean_windows(job.g, image + n * job.in_positions * job.g.channels, job.taps, sum,
                           ys + n * job.out_positions * job.g.channels);
  }
  for (int64_t i = 0, n = y.elements(); i < n; ++i) ys[i] = std::clamp(ys[i], b.lo, std::max(b.lo, b.hi));
  return store_image(job.ctx, reinterpret_cast<const uint64_t*>(ys), job.g.batch, job.out_positions, job.g.channels,
                     job.a.layout, y);
}

template <class T>
Status pool_reals(Job& job) {
  Tensor& y = job.ctx.output(0);
  SMELT_ASSIGN(const T* const xs, operand<T>(job.ctx, job.ctx.input(0)));
  SMELT_ASSIGN(T* const ys, pooled<T>(job, xs));
  activate_all(job.a.act, y.elements(), ys);
  return store_image(job.ctx, ys, job.g.batch, job.out_positions, job.g.channels, job.a.layout, y);
}

}  // namespace

Status infer_Pool(InferContext& ctx) {
  const auto& a = ctx.attrs<PoolAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(real_result_type(ctx)), index = ValueType::tensor(a.index_dtype);
  if (x.quant && ctx.declared(0).dtype == DType::kInvalid) {
    y.dtype = x.dtype;
    y.quant = x.quant;
  }
  if (x.ranked) {
    SMELT_ASSIGN(const PoolGeometry g, pool_geometry(a, x.shape));
    y.ranked = index.ranked = true;
    y.shape = index.shape = g.output;
  }
  ctx.set(0, std::move(y));
  ctx.set(1, std::move(index));
  return Ok();
}

Status reference_Pool(KernelContext& ctx) {
  const auto& a = ctx.attrs<PoolAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const PoolGeometry g, pool_geometry(a, x.shape()));
  if (x.elements() == 0 || ctx.output(0).elements() == 0) return Ok();
  Job job{ctx, a, g, g.window.in_positions(), g.window.out_positions(), {}};
  SMELT_TRY(allocate_scratch(ctx, g.window, job.taps));
  const bool integers =
      is_integer(x.dtype()) && is_integer(ctx.output(0).dtype()) && same_quant_params(x.quant(), ctx.output(0).quant());
  const bool exact_mean = a.kind == PoolKind::kAverage && (a.rounding != Rounding::kFloatHalfEven || !x.quant());
  if (integers && (a.kind == PoolKind::kMax || exact_mean)) return pool_integers(job);
  return x.dtype() == DType::kF64 ? pool_reals<double>(job) : pool_reals<float>(job);
}

Status infer_MaxPoolWithMask(InferContext& ctx) { return infer_Pool(ctx); }

Status reference_MaxPoolWithMask(KernelContext& ctx) {
  const auto& a = ctx.attrs<PoolAttrs>();
  const Tensor &x = ctx.input(0), &mask = ctx.input(1);
  SMELT_ASSIGN(const PoolGeometry g, pool_geometry(a, x.shape()));
  const int64_t n = x.elements(), m = mask.elements();
  if (n == 0) return Ok();
  if (m == 0 || n % m != 0) return InvalidInput("a mask of shape ", mask.shape().str(), " does not fit the image");
  SMELT_ASSIGN(float* const xs, operand_copy<float>(ctx, x));
  for (int64_t i = 0; i < n; ++i)
    if (get_double(mask, i % m) == 0) xs[i] = std::numeric_limits<float>::lowest();
  Job job{ctx, a, g, g.window.in_positions(), g.window.out_positions(), {}};
  SMELT_TRY(allocate_scratch(ctx, g.window, job.taps));
  SMELT_ASSIGN(float* const ys, pooled<float>(job, xs));
  return store_image(ctx, ys, g.batch, job.out_positions, g.channels, a.layout, ctx.output(0));
}

}  // namespace smelt
