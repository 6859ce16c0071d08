#include "backends/cpu/core/vector_ops.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/core/vector_ops.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/log-inl.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/prefetch.h"
#include "backends/cpu/core/vectors-inl.h"
#include "base/selection.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using One = hn::CappedTag<float, 1>;

void max_taps(const float* const* taps, int64_t count, int64_t n, float* y) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    // True if one is no number is collected beside the maximum: each then waits for one operation a tap.
    auto best = part.load(taps[0] + i);
    auto none = hn::IsNaN(best);
    for (int64_t t = 1; t < count; ++t) {
      const auto v = part.load(taps[t] + i);
      best = hn::Max(v, best);
      none = hn::Or(none, hn::IsNaN(v));
    }
    part.store(hn::IfThenElse(none, hn::NaN(part.d), best), y + i);
  });
}

void sum_taps(const float* const* taps, int64_t count, int64_t n, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kTogether = 4;  // neighbours: a sum waits for its own results
  int64_t first = 0;
  for (; first + kTogether * lanes <= n; first += kTogether * lanes) {
    V sums[kTogether];
#pragma GCC unroll 4
    for (int i = 0; i < kTogether; ++i) sums[i] = hn::LoadU(d, taps[0] + first + i * lanes);
    for (int64_t t = 1; t < count; ++t)
#pragma GCC unroll 4
      for (int i = 0; i < kTogether; ++i) sums[i] = hn::Add(sums[i], hn::LoadU(d, taps[t] + first + i * lanes));
#pragma GCC unroll 4
    for (int i = 0; i < kTogether; ++i) hn::StoreU(sums[i], d, y + first + i * lanes);
  }
  each_vector(n - first, [&](auto part, int64_t i) HWY_ATTR {
    auto sum = part.load(taps[0] + first + i);
    for (int64_t t = 1; t < count; ++t) sum = hn::Add(sum, part.load(taps[t] + first + i));
    part.store(sum, y + first + i);
  });
}

/// Calls step(tag, i) for n elements: whole vectors, then ever shorter ones.
template <class T, class F>
HWY_INLINE void each_shorter(int64_t n, F&& step) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  const auto once = [&](auto part) HWY_ATTR {
    if (i + static_cast<int64_t>(hn::Lanes(part)) > n) return;
    step(part, i);
    i += static_cast<int64_t>(hn::Lanes(part));
  };
  if (lanes > 32) once(hn::CappedTag<T, 32>());
  if (lanes > 16) once(hn::CappedTag<T, 16>());
  if (lanes > 8) once(hn::CappedTag<T, 8>());
  if (lanes > 4) once(hn::CappedTag<T, 4>());
  for (; i < n; ++i) step(hn::CappedTag<T, 1>(), i);
}

template <class T>
void max_bytes(const uint8_t* const* taps, int64_t count, int64_t n, uint8_t* y) {
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    auto best = hn::LoadU(d, reinterpret_cast<const T*>(taps[0] + i));
    for (int64_t t = 1; t < count; ++t) best = hn::Max(best, hn::LoadU(d, reinterpret_cast<const T*>(taps[t] + i)));
    hn::StoreU(best, d, reinterpret_cast<T*>(y + i));
  };
  each_shorter<T>(n, step);
}

void max_taps_i8(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, uint8_t* y) {
  is_signed ? max_bytes<int8_t>(taps, count, n, y) : max_bytes<uint8_t>(taps, count, n, y);
}

template <class T>
void sum_bytes(const uint8_t* const* taps, int64_t count, int64_t n, int32_t* y) {
  each_shorter<int32_t>(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<T, decltype(d)> narrow;
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t)
      sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(narrow, reinterpret_cast<const T*>(taps[t] + i))));
    hn::StoreU(sum, d, y + i);
  });
}

void sum_taps_i8(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, int32_t* y) {
  is_signed ? sum_bytes<int8_t>(taps, count, n, y) : sum_bytes<uint8_t>(taps, count, n, y);
}

void add(const float* x, int64_t n, float* y) {
  each_vector(n,
              [&](auto part, int64_t i) HWY_ATTR { part.store(hn::Add(part.load(y + i), part.load(x + i)), y + i); });
}

void copy_lines(const float* x, int64_t x_step, int64_t lines, int64_t n, float* y, int64_t y_step) {
  for (int64_t i = 0; i < lines; ++i, x += x_step, y += y_step)
    each_vector(n, [&](auto part, int64_t at) HWY_ATTR { part.store(part.load(x + at), y + at); });
}

void softcap(float* x, int64_t n, float cap) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto d = part.d;
    const auto bound = hn::Set(d, cap);
    part.store(hn::Mul(tanh_f32(d, hn::Div(part.load(x + i), bound)), bound), x + i);
  });
}

void scale_clamp(float* x, int64_t n, float scale, float lo, float hi) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto d = part.d;
    part.store(clamp(hn::Mul(part.load(x + i), hn::Set(d, scale)), hn::Set(d, lo), hn::Set(d, hi)), x + i);
  });
}

float reduce_max(const float* x, int64_t n) {
  const D d;
  const V lowest = hn::Set(d, -std::numeric_limits<float>::infinity());
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  V v = lowest, w = lowest;
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    v = hn::Max(v, hn::LoadU(d, x + i));
    w = hn::Max(w, hn::LoadU(d, x + i + lanes));
  }
  float best = -std::numeric_limits<float>::infinity();
  each_vector(n - i, [&](auto part, int64_t at) HWY_ATTR {
    if constexpr (part.kSingle)
      best = x[i + at] > best ? x[i + at] : best;
    else
      v = hn::Max(v, part.rest_as(part.load(x + i + at), lowest));
  });
  const float of_lanes = hn::GetLane(hn::MaxOfLanes(d, hn::Max(v, w)));
  return of_lanes > best ? of_lanes : best;
}

/// The largest element, NaN if there is one.
float reduce_max_or_nan(const float* x, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V first = hn::Set(d, x[0]);
  V v = first, w = first;
  auto none = hn::IsNaN(first);
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const V a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + lanes);
    v = hn::Max(a, v);
    w = hn::Max(b, w);
    none = hn::Or(none, hn::Or(hn::IsNaN(a), hn::IsNaN(b)));
  }
  float best = x[0];
  each_vector(n - i, [&](auto part, int64_t at) HWY_ATTR {
    const float* from = x + i + at;
    if constexpr (part.kSingle) {
      best = *from > best || *from != *from ? *from : best;
    } else {
      const V a = part.rest_as(part.load(from), first);
      v = hn::Max(a, v);
      none = hn::Or(none, hn::IsNaN(a));
    }
  });
  if (!hn::AllFalse(d, none) || best != best) return std::numeric_limits<float>::quiet_NaN();
  return std::max(best, hn::GetLane(hn::MaxOfLanes(d, hn::Max(v, w))));
}

/// Sum of f(x[i]) in float32 over stretches, which are added in double.
template <class F>
HWY_INLINE double sum_of(const float* x, int64_t n, F&& f) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int64_t kStretch = 64;  // vectors
  double total = 0;
  int64_t i = 0;
  while (i + lanes <= n) {
    V a = hn::Zero(d), b = a, c = a, e = a;  // four sums: one waits for its own results
    const int64_t end = std::min(n, i + kStretch * lanes);
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      a = hn::Add(a, f(d, hn::LoadU(d, x + i)));
      b = hn::Add(b, f(d, hn::LoadU(d, x + i + lanes)));
      c = hn::Add(c, f(d, hn::LoadU(d, x + i + 2 * lanes)));
      e = hn::Add(e, f(d, hn::LoadU(d, x + i + 3 * lanes)));
    }
    for (; i + lanes <= end; i += lanes) a = hn::Add(a, f(d, hn::LoadU(d, x + i)));
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, c), hn::Add(b, e)))));
  }
  each_vector(n - i, [&](auto part, int64_t at) HWY_ATTR {
    const auto v = f(part.d, part.load(x + i + at));
    if constexpr (part.kSingle)
      total += static_cast<double>(hn::GetLane(v));
    else
      total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, part.rest_as(v, hn::Zero(d)))));
  });
  return total;
}

double reduce_sum(const float* x, int64_t n) {
  return sum_of(x, n, [](auto, auto v) HWY_ATTR { return v; });
}

void mean_rows(const float* x, int64_t rows, int64_t n, double divisor, float* y) {
  constexpr int64_t kShort = 256;  // sums of one vector: rows that follow each other fill the waiting
  const D d;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    if (n > kShort) {
      y[r] = static_cast<float>(reduce_sum(x, n) / divisor);
      continue;
    }
    V sum = hn::Zero(d);
    float single = 0;
    each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
      if constexpr (part.kSingle)
        single += x[i];
      else
        sum = hn::Add(sum, part.load(x + i));
    });
    y[r] = static_cast<float>(static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)) + single) / divisor);
  }
}

double reduce_sum_squares(const float* x, int64_t n) {
  return sum_of(x, n, [](auto, auto v) HWY_ATTR { return hn::Mul(v, v); });
}

/// y = softmax(beta * (x + added)), or its logarithm, of rows that fit kVectors registers each; rows of y lie s.step
/// apart too.
template <int kVectors>
void softmax_registers(const ScoreRows& s, const float* x, float beta, bool logarithm, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr int kLast = kVectors - 1;
  const PartVector<D> last{d, hn::FirstN(d, static_cast<size_t>(s.n - kLast * lanes))};
  const float* added = s.added;
  for (int64_t r = 0; r < s.rows; ++r, x += s.step, y += s.step, added += added ? s.added_step : 0) {
    V v[kVectors];
#pragma GCC unroll 4
    for (int i = 0; i < kLast; ++i) v[i] = hn::LoadU(d, x + i * lanes);
    v[kLast] = last.load(x + kLast * lanes);
    if (added) {
      // Rows behind this one, and the next call's, mostly follow each other in memory.
      constexpr int64_t kAhead = 512;
#pragma GCC unroll 4
      for (int i = 0; i < kVectors; ++i) __builtin_prefetch(added + kAhead + i * lanes);
#pragma GCC unroll 4
      for (int i = 0; i < kLast; ++i) v[i] = hn::Add(v[i], hn::LoadU(d, added + i * lanes));
      v[kLast] = hn::Add(v[kLast], last.load(added + kLast * lanes));
    }
    v[kLast] = last.rest_as(v[kLast], hn::Set(d, hn::GetLane(v[0])));
    V best = v[0];
#pragma GCC unroll 4
    for (int i = 1; i < kVectors; ++i) best = hn::Max(best, v[i]);
    best = hn::MaxOfLanes(d, best);
    V sum = hn::Zero(d);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      v[i] = hn::Mul(hn::Sub(v[i], best), hn::Set(d, beta));
      const V e = exp_nonpositive(d, v[i]);
      sum = hn::Add(sum, i == kLast ? last.rest_as(e, hn::Zero(d)) : e);
      if (!logarithm) v[i] = e;
    }
    sum = hn::SumOfLanes(d, sum);
    const V term = logarithm ? log_of_sums(d, sum) : hn::Div(hn::Set(d, 1.0f), sum);
#pragma GCC unroll 4
    for (int i = 0; i < kVectors; ++i) {
      v[i] = logarithm ? hn::Sub(v[i], term) : hn::Mul(v[i], term);
      if (i < kLast)
        hn::StoreU(v[i], d, y + i * lanes);
      else
        last.store(v[i], y + i * lanes);
    }
  }
}

/// True if rows were short enough for softmax_registers().
bool softmax_short(const ScoreRows& s, const float* x, float beta, bool logarithm, float* y) {
  constexpr int64_t kLanes = HWY_MAX_BYTES / 4;
  constexpr void (*kByVectors[])(const ScoreRows&, const float*, float, bool, float*) = {
      softmax_registers<1>, softmax_registers<2>, softmax_registers<3>, softmax_registers<4>};
  if (!kMaskedLoads || s.n > kLanes * static_cast<int64_t>(std::size(kByVectors))) return false;
  kByVectors[(s.n - 1) / kLanes](s, x, beta, logarithm, y);
  return true;
}

void softmax_long(const float* x, int64_t n, float beta, bool logarithm, float* y) {
  const float largest = reduce_max(x, n);
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto d = part.d;
    const auto shifted = hn::Mul(hn::Sub(part.load(x + i), hn::Set(d, largest)), hn::Set(d, beta));
    part.store(logarithm ? shifted : exp_nonpositive(d, shifted), y + i);
  });
  if (logarithm) {
    const double sum = sum_of(y, n, [](auto d, auto v) HWY_ATTR { return exp_nonpositive(d, v); });
    const auto log_sum = static_cast<float>(std::log(sum));
    each_vector(n, [&](auto part, int64_t i)
                       HWY_ATTR { part.store(hn::Sub(part.load(y + i), hn::Set(part.d, log_sum)), y + i); });
    return;
  }
  const auto inverse = static_cast<float>(1.0 / reduce_sum(y, n));
  each_vector(n, [&](auto part, int64_t i)
                     HWY_ATTR { part.store(hn::Mul(part.load(y + i), hn::Set(part.d, inverse)), y + i); });
}

void softmax(const float* x, int64_t rows, int64_t n, float beta, bool logarithm, float* y) {
  if (softmax_short({n, rows, n}, x, beta, logarithm, y)) return;
  for (int64_t r = 0; r < rows; ++r) softmax_long(x + r * n, n, beta, logarithm, y + r * n);
}

/// exponentials() of a row; returns its factor.
float exponentials_long(float* x, int64_t n) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float most = reduce_max(x, n);
  const V largest = hn::Set(d, most);
  constexpr int64_t kStretch = 64;  // vectors whose sum stays in float32
  double total = 0;
  int64_t i = 0;
  while (i + lanes <= n) {
    V sum = hn::Zero(d);
    for (const int64_t end = std::min(n, i + kStretch * lanes); i + lanes <= end; i += lanes) {
      const V e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, x + i), largest));
      hn::StoreU(e, d, x + i);
      sum = hn::Add(sum, e);
    }
    total += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, sum)));
  }
  const int64_t rest = i;
  each_vector(n - rest, [&](auto part, int64_t at) HWY_ATTR {
    part.store(exp_nonpositive(part.d, hn::Sub(part.load(x + rest + at), hn::Set(part.d, most))), x + rest + at);
  });
  for (i = rest; i < n; ++i) total += static_cast<double>(x[i]);
  return static_cast<float>(1.0 / total);
}

void exponentials(const ScoreRows& s, float* x, float* factors) {
  if (softmax_short(s, x, 1, false, x)) {
    std::fill_n(factors, s.rows, 1.0f);
    return;
  }
  for (int64_t r = 0; r < s.rows; ++r, x += s.step) {
    if (s.added) {
      const float* const added = s.added + r * s.added_step;
      add(added, s.n, x);
      // The exponentials leave the next row time to come.
      if (r + 1 < s.rows) prefetch_row(added + s.added_step, s.n * int64_t{sizeof(float)});
    }
    factors[r] = exponentials_long(x, s.n);
  }
}

/// layer_norm() of a row that fits kVectors registers.
template <int kVectors>
HWY_INLINE void layer_norm_registers(const float* x, int64_t n, double epsilon, bool rms, const float* scale,
                                     const float* bias, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const PartVector<D> last{d, hn::FirstN(d, static_cast<size_t>(n - (kVectors - 1) * lanes))};
  const auto load = [&](const float* from, int i) HWY_ATTR {
    return i < kVectors - 1 ? hn::LoadU(d, from + i * lanes) : last.load(from + i * lanes);
  };
  const auto sum = [&](const V(&of)[kVectors]) HWY_ATTR {
    V sums[2] = {of[0], hn::Zero(d)};
#pragma GCC unroll 8
    for (int i = 1; i < kVectors; ++i) sums[i % 2] = hn::Add(sums[i % 2], of[i]);
    return static_cast<double>(hn::GetLane(hn::SumOfLanes(d, hn::Add(sums[0], sums[1]))));
  };
  const double share = 1.0 / static_cast<double>(n);
  V v[kVectors], squares[kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) v[i] = load(x, i);
  const V mean = hn::Set(d, rms ? 0.0f : static_cast<float>(sum(v) * share));
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) {
    v[i] = hn::Sub(v[i], mean);
    if (i == kVectors - 1) v[i] = last.rest_as(v[i], hn::Zero(d));
    squares[i] = hn::Mul(v[i], v[i]);
  }
  const V inverse = hn::Set(d, static_cast<float>(1 / std::sqrt(sum(squares) * share + epsilon)));
#pragma GCC unroll 8
  for (int i = 0; i < kVectors; ++i) {
    v[i] = hn::Mul(v[i], inverse);
    if (scale) v[i] = hn::Mul(v[i], load(scale, i));
    if (bias) v[i] = hn::Add(v[i], load(bias, i));
    if (i < kVectors - 1)
      hn::StoreU(v[i], d, y + i * lanes);
    else
      last.store(v[i], y + i * lanes);
  }
}

void layer_norm(const float* x, int64_t n, double epsilon, bool rms, const float* scale, const float* bias, float* y) {
  if constexpr (kMaskedLoads) {
    switch ((n + HWY_MAX_BYTES / 4 - 1) / (HWY_MAX_BYTES / 4)) {
      case 1:
        return layer_norm_registers<1>(x, n, epsilon, rms, scale, bias, y);
      case 2:
        return layer_norm_registers<2>(x, n, epsilon, rms, scale, bias, y);
      case 3:
        return layer_norm_registers<3>(x, n, epsilon, rms, scale, bias, y);
      case 4:
        return layer_norm_registers<4>(x, n, epsilon, rms, scale, bias, y);
      case 5:
        return layer_norm_registers<5>(x, n, epsilon, rms, scale, bias, y);
      case 6:
        return layer_norm_registers<6>(x, n, epsilon, rms, scale, bias, y);
      case 7:
        return layer_norm_registers<7>(x, n, epsilon, rms, scale, bias, y);
      case 8:
        return layer_norm_registers<8>(x, n, epsilon, rms, scale, bias, y);
      default:
        break;
    }
  }
  const double count = static_cast<double>(std::max<int64_t>(n, 1));
  const auto mean = static_cast<float>(rms ? 0.0 : reduce_sum(x, n) / count);
  const double squares = sum_of(x, n, [mean](auto d, auto v) HWY_ATTR {
    const auto e = hn::Sub(v, hn::Set(d, mean));
    return hn::Mul(e, e);
  });
  const auto inverse = static_cast<float>(1 / std::sqrt(squares / count + epsilon));
  const auto normalized = [mean, inverse](auto part, const float* from) HWY_ATTR {
    return hn::Mul(hn::Sub(part.load(from), hn::Set(part.d, mean)), hn::Set(part.d, inverse));
  };
  if (scale && bias) {
    each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
      part.store(hn::Add(hn::Mul(normalized(part, x + i), part.load(scale + i)), part.load(bias + i)), y + i);
    });
    return;
  }
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    auto v = normalized(part, x + i);
    if (scale) v = hn::Mul(v, part.load(scale + i));
    if (bias) v = hn::Add(v, part.load(bias + i));
    part.store(v, y + i);
  });
}

VectorOps make_vector_ops() {
  // A build for some models leaves out what no kernel of it asks for.
  constexpr auto kLines = builds_op("Pool") ? copy_lines : nullptr;
  constexpr auto kSoftcap = builds_op("Attention") ? softcap : nullptr;
  constexpr auto kExponentials = builds_op("Attention") ? exponentials : nullptr;
  constexpr auto kLayerNorm = builds_cpu_kernel("LayerNorm", "layer_norm_f32") ? layer_norm : nullptr;
  return {max_taps,    sum_taps,          max_taps_i8, sum_taps_i8,        add,     kLines,        kSoftcap,
          scale_clamp, reduce_max_or_nan, mean_rows,   reduce_sum_squares, softmax, kExponentials, kLayerNorm};
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const VectorOps& vector_ops(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_vector_ops)(); });
}

}  // namespace smelt
#endif
