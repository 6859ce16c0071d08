#include "backends/cpu/quantize/dynamic_quant.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/quantize/dynamic_quant.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/narrow-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "tensor/numeric.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int kChains = 4;  // one waits for its own results

/// take(c, at) for each whole vector of n values, where c is its chain. Returns the number of values that these have.
template <class Take>
HWY_INLINE int64_t take_vectors(const float* x, int64_t n, const Take& take) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(D()));
  int64_t i = 0;
  for (; i + kChains * lanes <= n; i += kChains * lanes)
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) take(c, x + i + c * lanes);
  for (; i + lanes <= n; i += lanes) take(0, x + i);
  return i;
}

void row_range(const float* x, int64_t n, float* low, float* high) {
  const D d;
  V lows[kChains], highs[kChains];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) lows[c] = highs[c] = hn::Zero(d);
  const auto take = [&](int c, const float* from) HWY_ATTR {
    const V v = hn::LoadU(d, from);
    lows[c] = hn::Min(v, lows[c]);  // x86 gives the second one where one is NaN
    highs[c] = hn::Max(v, highs[c]);
  };
  int64_t i = take_vectors(x, n, take);
#pragma GCC unroll 4
  for (int c = 1; c < kChains; ++c) {
    lows[0] = hn::Min(lows[0], lows[c]);
    highs[0] = hn::Max(highs[0], highs[c]);
  }
  float lo = hn::GetLane(hn::MinOfLanes(d, lows[0])), hi = hn::GetLane(hn::MaxOfLanes(d, highs[0]));
  for (; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
  }
  *low = lo;
  *high = hi;
}

/// Smallest and largest of n > 0 values. False if one is infinite or NaN.
HWY_INLINE bool finite_range_inline(const float* x, int64_t n, float* low, float* high) {
  const D d;
  V lows[kChains], highs[kChains], zeros[kChains];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c) {
    lows[c] = highs[c] = hn::Set(d, x[0]);
    zeros[c] = hn::Zero(d);
  }
  const auto take = [&](int c, const float* from) HWY_ATTR {
    const V v = hn::LoadU(d, from);
    lows[c] = hn::Min(lows[c], v);
    highs[c] = hn::Max(highs[c], v);
    zeros[c] = hn::MulAdd(v, hn::Zero(d), zeros[c]);  // NaN from the first value on that is not finite
  };
  int64_t i = take_vectors(x, n, take);
#pragma GCC unroll 4
  for (int c = 1; c < kChains; ++c) {
    lows[0] = hn::Min(lows[0], lows[c]);
    highs[0] = hn::Max(highs[0], highs[c]);
    zeros[0] = hn::Add(zeros[0], zeros[c]);
  }
  float lo = hn::GetLane(hn::MinOfLanes(d, lows[0])), hi = hn::GetLane(hn::MaxOfLanes(d, highs[0]));
  float zero = hn::AllTrue(d, hn::Eq(zeros[0], hn::Zero(d))) ? 0.0f : 1.0f;
  for (; i < n; ++i) {
    lo = std::min(lo, x[i]);
    hi = std::max(hi, x[i]);
    zero += x[i] * 0.0f;
  }
  *low = lo;
  *high = hi;
  return zero == 0;
}

bool finite_range(const float* x, int64_t n, float* low, float* high) { return finite_range_inline(x, n, low, high); }

/// Columns [j, ...) of the rows, as many as the part's lanes.
template <class Part>
HWY_INLINE void rescale_columns(Part part, const AccumulatorScales& by, int64_t j, const int32_t* acc, int64_t stride,
                                int64_t rows, const QuantParams* params, int64_t params_step, float* y,
                                int64_t y_stride) {
  const auto d = part.d;
  const hn::RebindToSigned<decltype(part.d)> di;
  const auto column_sums = by.column_sums ? part.load_ints(by.column_sums + j) : hn::Zero(di);
  const auto scales = part.load(by.scales + j);
  const auto bias = by.bias ? part.load(by.bias + j) : hn::Zero(d);
  const auto lo = hn::Set(d, by.lo), hi = hn::Set(d, by.hi);
  const bool first = by.first, last = by.last, adds = by.bias != nullptr, zeros = by.column_sums != nullptr;
  acc += j;
  y += j;
  if (params_step == 0 && first && last) {  // one zero point for all rows
    const auto less = zeros ? hn::Mul(hn::Set(di, params->zero_point), column_sums) : hn::Zero(di);
    const auto scale = hn::Set(d, params->scale), addend = adds ? bias : hn::Set(d, -0.0f);
    for (int64_t r = 0; r < rows; ++r, acc += stride, y += y_stride) {
      const auto real = hn::Mul(hn::Mul(hn::ConvertTo(d, hn::Sub(part.load_ints(acc), less)), scale), scales);
      part.store(clamp(hn::Add(real, addend), lo, hi), y);
    }
    return;
  }
  for (int64_t r = 0; r < rows; ++r, acc += stride, y += y_stride, params += params_step) {
    auto s = part.load_ints(acc);
    if (zeros) s = hn::Sub(s, hn::Mul(hn::Set(di, params->zero_point), column_sums));
    auto v = hn::Mul(hn::Mul(hn::ConvertTo(d, s), hn::Set(d, params->scale)), scales);
    if (!first) v = hn::Add(v, part.load(y));
    if (last) {
      if (adds) v = hn::Add(v, bias);
      v = clamp(v, lo, hi);
    }
    part.store(v, y);
  }
}

/// Rows of 2 * lanes accumulators whose addends are all there. kPerRow: rows have quantization parameters of their own.
template <bool kAdds, bool kPerRow>
HWY_INLINE void rescale_wide_rows(const AccumulatorScales& by, const int32_t* acc, int64_t stride, int64_t rows,
                                  const QuantParams* params, float* y, int64_t y_stride) {
  const D d;
  const hn::RebindToSigned<D> di;
  using VI = hn::Vec<decltype(di)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto lo = hn::Set(d, by.lo), hi = hn::Set(d, by.hi);
  VI column_sums[2], less[2];
  V scales[2], bias[2];
#pragma GCC unroll 2
  for (int j = 0; j < 2; ++j) {
    column_sums[j] = by.column_sums ? hn::LoadU(di, by.column_sums + j * lanes) : hn::Zero(di);
    less[j] = hn::Mul(hn::Set(di, params->zero_point), column_sums[j]);
    scales[j] = hn::LoadU(d, by.scales + j * lanes);
    bias[j] = kAdds ? hn::LoadU(d, by.bias + j * lanes) : hn::Zero(d);
  }
  V scale = hn::Set(d, params->scale);
  for (int64_t r = 0; r < rows; ++r, acc += stride, y += y_stride) {
    if constexpr (kPerRow) scale = hn::Set(d, params[r].scale);
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      if constexpr (kPerRow) less[j] = hn::Mul(hn::Set(di, params[r].zero_point), column_sums[j]);
      V v = hn::Mul(hn::Mul(hn::ConvertTo(d, hn::Sub(hn::LoadU(di, acc + j * lanes), less[j])), scale), scales[j]);
      if constexpr (kAdds) v = hn::Add(v, bias[j]);
      hn::StoreU(clamp(v, lo, hi), d, y + j * lanes);
    }
  }
}

template <bool kPerRow>
void rescale_wide(const AccumulatorScales& by, const int32_t* acc, int64_t stride, int64_t rows,
                  const QuantParams* params, float* y, int64_t y_stride) {
  if (by.bias)
    rescale_wide_rows<true, kPerRow>(by, acc, stride, rows, params, y, y_stride);
  else
    rescale_wide_rows<false, kPerRow>(by, acc, stride, rows, params, y, y_stride);
}

void rescale_acc(const AccumulatorScales& by, const int32_t* acc, int64_t stride, int64_t rows,
                 const QuantParams* params, int64_t params_step, int64_t n, float* y, int64_t y_stride) {
  if (params_step <= 1 && by.first && by.last && n == 2 * static_cast<int64_t>(hn::Lanes(D())))
    return (params_step == 1 ? rescale_wide<true> : rescale_wide<false>)(by, acc, stride, rows, params, y, y_stride);
  each_vector(n, [&](auto part, int64_t j)
                     HWY_ATTR { rescale_columns(part, by, j, acc, stride, rows, params, params_step, y, y_stride); });
}

/// The product or quotient that a quantization parameters is made by, and the integers it goes to.
template <bool kAway, bool kDivides, bool kInRange, class Q>
HWY_INLINE void quantize_to(const float* x, int64_t n, const QuantRule& params, Q* out) {
  const auto integers = [zero = params.zero, low = static_cast<float>(params.low - params.zero),
                         high = static_cast<float>(params.high - params.zero),
                         scale = kDivides || params.factor ? params.scale : 1.0f / params.scale](
                            auto d, const float* from) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto x_i = hn::LoadU(d, from);
    const auto v = kDivides ? hn::Div(x_i, hn::Set(d, scale)) : hn::Mul(x_i, hn::Set(d, scale));
    const auto r = kInRange ? v : hn::Min(hn::Max(v, hn::Set(d, low)), hn::Set(d, high));
    // Away from zero: the largest number below 1/2 goes over the middle from 1/2 on, and from nothing below.
    const auto q =
        kAway ? whole_in_range(hn::Add(r, hn::CopySign(hn::Set(d, 0x1.fffffep-2f), r))) : nearest_in_range(r);
    const auto integer = hn::Add(q, hn::Set(di, zero));
    return kInRange ? integer : hn::IfThenZeroElse(hn::RebindMask(di, hn::IsNaN(v)), integer);
  };
  const D d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto store = [&](auto part, int64_t i) HWY_ATTR {
    const hn::Rebind<Q, decltype(part)> dq;
    hn::StoreU(hn::DemoteTo(dq, integers(part, x + i)), dq, out + i);
  };
  int64_t i = 0;
#if HWY_TARGET == HWY_AVX3
  for (; sizeof(Q) == 1 && i + 4 * lanes <= n; i += 4 * lanes) {
    const float* from = x + i;
    const __m512i bytes = narrow_four<std::is_signed_v<Q>>(
        integers(d, from), integers(d, from + lanes), integers(d, from + 2 * lanes), integers(d, from + 3 * lanes));
    _mm512_storeu_si512(out + i, bytes);
  }
#endif
  for (; i + lanes <= n; i += lanes) store(d, i);
  for (; i < n; ++i) store(one, i);
}

template <bool kAway, bool kDivides>
void to_quantized_type(const float* x, int64_t n, const QuantRule& g, uint8_t* out) {
  if (g.wide)
    g.is_signed ? quantize_to<kAway, kDivides, false>(x, n, g, reinterpret_cast<int16_t*>(out))
                : quantize_to<kAway, kDivides, false>(x, n, g, reinterpret_cast<uint16_t*>(out));
  else
    g.is_signed ? quantize_to<kAway, kDivides, false>(x, n, g, reinterpret_cast<int8_t*>(out))
                : quantize_to<kAway, kDivides, false>(x, n, g, out);
}

/// Quantizes a row by the rule of choose_params().
void quantize_row_to(const float* x, int64_t n, const QuantRule& rule, int8_t* out) {
  if (rule.in_range)
    quantize_to<true, false, true>(x, n, rule, out);
  else
    quantize_to<true, false, false>(x, n, rule, out);
}

void quantize(const float* x, int64_t n, const QuantRule& g, uint8_t* out) {
  if (g.in_range) return quantize_row_to(x, n, g, reinterpret_cast<int8_t*>(out));
  if (g.factor || g.reciprocal)
    (g.away ? to_quantized_type<true, false> : to_quantized_type<false, false>)(x, n, g, out);
  else
    (g.away ? to_quantized_type<true, true> : to_quantized_type<false, true>)(x, n, g, out);
}

void dequantize(const uint8_t* x, int64_t n, const QuantRule& params, float factor, float* out) {
  const QuantRule g = params;  // stores to `out` cannot change it
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> ds;
    const hn::Rebind<uint8_t, decltype(d)> du;
    const auto q = g.is_signed ? hn::PromoteTo(di, hn::LoadU(ds, reinterpret_cast<const int8_t*>(x + i)))
                               : hn::PromoteTo(di, hn::LoadU(du, x + i));
    const auto real = hn::Mul(hn::Set(d, g.scale), hn::ConvertTo(d, hn::Sub(q, hn::Set(di, g.zero))));
    hn::StoreU(hn::Mul(hn::Set(d, factor), real), d, out + i);
  };
  const D d;
  const hn::CappedTag<float, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) step(d, i);
  for (; i < n; ++i) step(one, i);
}

bool choose_params(const float* x, int64_t n, bool asymmetric, QuantParams* params, QuantRule* rule) {
  float low = 0, high = 0;
  return n > 0 && finite_range_inline(x, n, &low, &high) && params_of_range(low, high, asymmetric, params, rule);
}

/// Rows whose parameters are found side by side.
constexpr int64_t kTogether = 8;

#if HWY_MAX_BYTES >= 64
/// choose_params() of the asymmetric parameters of so many rows at once.
void choose_params_of_rows(const float* x, int64_t rows, int64_t n, bool* found, QuantParams* params,
                           QuantRule* rules) {
  const hn::CappedTag<double, kTogether> d;
  const hn::Rebind<float, decltype(d)> df;
  const hn::Rebind<int32_t, decltype(d)> di;
  float low[kTogether] = {}, high[kTogether] = {}, scale[kTogether], inverse[kTogether];
  int32_t zero[kTogether];
  for (int64_t r = 0; r < rows; ++r)
    found[r] = finite_range(x + r * n, n, &low[r], &high[r]) && (low[r] < 0 || high[r] > 0);
  const auto least = hn::PromoteTo(d, hn::Min(hn::LoadU(df, low), hn::Zero(df)));
  const auto most = hn::PromoteTo(d, hn::Max(hn::LoadU(df, high), hn::Zero(df)));
  const auto step = hn::Div(hn::Sub(most, least), hn::Set(d, 255.0));
  const auto at_least = hn::Div(least, step), at_most = hn::Div(most, step);
  const auto nearer =
      hn::Lt(hn::Add(hn::Set(d, 128.0), hn::Abs(at_least)), hn::Add(hn::Set(d, 127.0), hn::Abs(at_most)));
  auto z = hn::IfThenElse(nearer, hn::Sub(hn::Set(d, -128.0), at_least), hn::Sub(hn::Set(d, 127.0), at_most));
  z = hn::Min(hn::Max(z, hn::Set(d, -128.0)), hn::Set(d, 127.0));
  const auto half = hn::CopySign(hn::Set(d, 0x1.fffffffffffffp-2), z);  // of std::round
  hn::StoreU(hn::DemoteTo(di, hn::Add(z, half)), di, zero);
  const auto s = hn::DemoteTo(df, step);
  hn::StoreU(s, df, scale);
  hn::StoreU(hn::Div(hn::Set(df, 1.0f), s), df, inverse);
  for (int64_t r = 0; r < rows; ++r) {
    params[r] = {scale[r], zero[r]};
    rules[r] = row_rule(inverse[r], zero[r], -128);
  }
}
#endif

void quantize_rows(const float* x, int64_t rows, int64_t n, bool asymmetric, int8_t* out, int64_t stride,
                   QuantParams* params) {
  // A row's parameters take a chain of reductions and divisions: those of some rows, near enough to stay in the nearest
  // cache, are found side by side.
  constexpr int64_t kMostFloats = 8192;
  const int64_t together = std::clamp<int64_t>(kMostFloats / std::max<int64_t>(n, 1), 1, kTogether);
  while (rows > 0) {
    QuantRule rules[kTogether];
    bool found[kTogether];
    const int64_t here = std::min(rows, together);
#if HWY_MAX_BYTES >= 64
    const bool at_once = asymmetric && here > 1 && n > 0;
    if (at_once) choose_params_of_rows(x, here, n, found, params, rules);
#else
    constexpr bool at_once = false;
#endif
    for (int64_t r = 0; r < here && !at_once; ++r)
      found[r] = choose_params(x + r * n, n, asymmetric, params + r, &rules[r]);
    for (int64_t r = 0; r < here; ++r, x += n, out += stride, ++params) {
      if (found[r])
        quantize_row_to(x, n, rules[r], out);
      else
        *params = quantize_row(x, n, asymmetric, out);
    }
    rows -= here;
  }
}

HWY_INLINE int32_t sum_of(const int8_t* x, int64_t n) {
  const hn::ScalableTag<int32_t> d;
  const hn::Rebind<int8_t, decltype(d)> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(d8, x + i)));
  int32_t total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) total += x[i];
  return total;
}

void sum_blocks(const int8_t* x, int64_t n, int64_t block, int32_t* acc) {
  for (int64_t at = 0; at < n; at += block) *acc++ = sum_of(x + at, std::min(block, n - at));
}

void sum_real_blocks(const float* x, int64_t n, int64_t block, float* acc) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t at = 0; at < n; at += block) {
    const int64_t end = std::min(n, at + block);
    V sum = hn::Zero(d);
    int64_t i = at;
    for (; i + lanes <= end; i += lanes) sum = hn::Add(sum, hn::LoadU(d, x + i));
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; i < end; ++i) total += x[i];
    *acc++ = total;
  }
}

/// The largest magnitude; NaN, whose bits are above all others, if there is one.
HWY_INLINE float magnitude_of(const float* x, int64_t n) {
  const hn::ScalableTag<int32_t> d;
  const auto magnitude = hn::Set(d, 0x7fffffff);
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  auto most = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) most = hn::Max(most, hn::And(magnitude, hn::BitCast(d, hn::LoadU(D(), x + i))));
  int32_t bits = hn::GetLane(hn::MaxOfLanes(d, most));
  for (; i < n; ++i) bits = std::max(bits, std::bit_cast<int32_t>(x[i]) & 0x7fffffff);
  return std::bit_cast<float>(bits);
}

void quantize_blocks(const float* x, int64_t n, int64_t block, int8_t* out, float* scales, int32_t* acc) {
  for (int64_t at = 0; at < n; at += block) {
    const int64_t here = std::min(block, n - at);
    const BlockQuantParams to = choose_block_quant_params(magnitude_of(x + at, here));
    quantize_to<false, false, false>(x + at, here, QuantRule{.scale = to.inverse, .low = -127, .factor = true},
                                     out + at);
    *scales++ = to.scale;
    *acc++ = sum_of(out + at, here);
  }
}

DynamicQuantOps make_dynamic_quant_ops() {
  return {row_range,     finite_range,  rescale_acc,     quantize,   dequantize,
          choose_params, quantize_rows, quantize_blocks, sum_blocks, sum_real_blocks};
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

QuantRule quant_rule(DType dtype) {
  QuantRule params;
  params.low = static_cast<int32_t>(int_min(dtype));
  params.high = static_cast<int32_t>(int_max(dtype));
  params.is_signed = params.low < 0;
  params.wide = bit_width(dtype) == 16;
  return params;
}

QuantRule quant_rule(const ValueType& t) {
  QuantRule params = quant_rule(t.dtype);
  params.scale = t.quant->scale();
  params.zero = t.quant->zero_point();
  params.away = t.quant->rounding != Rounding::kFloatHalfEven;
  return params;
}

ValueType dynamically_quantized(const ValueType& x) {
  ValueType t = ValueType::tensor(DType::kI8, x.shape);
  auto unit_scale = std::make_shared<Quantization>();
  unit_scale->scales = {1};
  t.quant = std::move(unit_scale);
  return t;
}

bool params_of_range(float low, float high, bool asymmetric, QuantParams* params, QuantRule* rule) {
  const float magnitude = std::max(std::fabs(low), std::fabs(high));
  if (!(magnitude > 0)) return false;
  if (asymmetric) {
    if (!choose_asymmetric_quant_params(low, high, *params)) return false;
    *rule = row_rule(1.0f / params->scale, params->zero_point, -128);
  } else {
    *params = {magnitude / 127.0f, 0};
    *rule = row_rule(127.0f / magnitude, 0, -127);
  }
  return true;
}

bool has_constant_per_tensor_params(const NodeSpec& spec) {
  for (size_t i = 1; i < spec.inputs.size(); ++i)
    if (spec.has(i) && (!spec.constant(i) || spec.constant(i)->elements() != 1)) return false;
  return true;
}

const DynamicQuantOps& dynamic_quant_ops(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_dynamic_quant_ops)(); });
}

}  // namespace smelt
#endif
