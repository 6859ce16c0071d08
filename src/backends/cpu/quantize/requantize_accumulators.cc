#include "backends/cpu/quantize/requantize_accumulators.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/quantize/requantize_accumulators.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/narrow-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/common/requantizer.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DI = hn::ScalableTag<int32_t>;
using DF = hn::ScalableTag<float>;
using VI = hn::Vec<DI>;

using DU64 = hn::Repartition<uint64_t, DI>;
using Steps = RequantizeParams::Steps;

HWY_INLINE hn::Vec<DU64> as_pairs(VI v) { return hn::BitCast(DU64(), v); }
HWY_INLINE VI odd_to_even(VI v) { return hn::BitCast(DI(), hn::ShiftRight<32>(as_pairs(v))); }

/// Parameters of one vector of channels, ready for use.
template <Rounding R, Steps S>
struct ChannelFactors;

template <Steps S>
struct ChannelFactors<Rounding::kFloatHalfEven, S> {
  hn::Vec<DF> factor, low, high;
  VI zero;

  HWY_INLINE ChannelFactors(const RequantizeParams& r, int64_t channel) {
    const DF df;
    factor = hn::LoadU(df, r.factors.data() + channel);
    zero = hn::Set(DI(), r.zero);
    low = hn::Set(df, static_cast<float>(r.low - r.zero));
    high = hn::Set(df, static_cast<float>(r.high - r.zero));
  }
  HWY_INLINE VI rescale(VI v) const {
    auto f = hn::Mul(hn::ConvertTo(DF(), v), factor);
    if constexpr (S == Steps::kAll) f = hn::Min(hn::Max(f, low), high);
    return hn::Add(nearest_in_range(f), zero);
  }
};

/// Products in float64, a half vector each, rounded to the nearest integers, ties away from zero.
template <>
struct ChannelFactors<Rounding::kDoubleHalfAway, Steps::kAll> {
  using DD = hn::Repartition<double, DI>;
  using DH = hn::Rebind<int32_t, DD>;
  using VD = hn::Vec<DD>;
  VD lower, upper, low, high;
  VI zero;

  HWY_INLINE ChannelFactors(const RequantizeParams& r, int64_t channel) {
    const DD dd;
    lower = hn::LoadU(dd, r.double_factors.data() + channel);
    upper = hn::LoadU(dd, r.double_factors.data() + channel + hn::Lanes(dd));
    zero = hn::Set(DI(), r.zero);
    low = hn::Set(dd, r.low - r.zero);
    high = hn::Set(dd, r.high - r.zero);
  }
  HWY_INLINE hn::Vec<DH> product(hn::Vec<DH> v, VD factor) const {
    const DD dd;
    VD f = hn::Min(hn::Max(hn::Mul(hn::PromoteTo(dd, v), factor), low), high);
    f = hn::Add(f, hn::CopySignToAbs(hn::Set(dd, kAlmostHalf), f));
    // No value leaves 32 bits, so that instructions without saturation do.
#if HWY_TARGET == HWY_AVX3
    return hn::Vec<DH>{_mm512_cvttpd_epi32(f.raw)};
#elif HWY_TARGET == HWY_AVX2
    return hn::Vec<DH>{_mm256_cvttpd_epi32(f.raw)};
#else
    return hn::DemoteTo(DH(), f);
#endif
  }
  HWY_INLINE VI rescale(VI v) const {
    const auto low_products = product(hn::LowerHalf(DH(), v), lower);
    return hn::Add(hn::Combine(DI(), product(hn::UpperHalf(DH(), v), upper), low_products), zero);
  }
};

/// Fixed point: a left shift, a product rounded to 31 bits less, then a right shift, whose ties go away from zero.
template <>
struct ChannelFactors<Rounding::kFixedDouble, Steps::kAll> {
  static constexpr DI d{};
  VI low, high, zero, multiplier, odd_multiplier, less, left;
  hn::Vec<DU64> even_nudge, odd_nudge;
  hn::Mask<DI> whole;

  HWY_INLINE ChannelFactors(const RequantizeParams& r, int64_t channel) {
    zero = hn::Set(d, r.zero);
    low = hn::Set(d, r.low - r.zero);
    high = hn::Set(d, r.high - r.zero);
    multiplier = hn::LoadU(d, r.multipliers.data() + channel);
    odd_multiplier = odd_to_even(multiplier);
    const VI shifts = hn::LoadU(d, r.shifts.data() + channel);
    left = hn::Max(hn::Neg(shifts), hn::Zero(d));
    const VI shift = hn::Max(shifts, hn::Zero(d));
    whole = hn::Eq(shift, hn::Zero(d));
    less = hn::Sub(shift, hn::IfThenZeroElse(whole, hn::Set(d, 1)));
    even_nudge = odd_nudge = hn::Set(DU64(), 1u << 30);
  }
  /// floor((v * multiplier + nudge) / 2^31) of every lane.
  HWY_INLINE VI high_product(VI v) const {
    const auto even = hn::Add(hn::BitCast(DU64(), hn::MulEven(v, multiplier)), even_nudge);
    const auto odd = hn::Add(hn::BitCast(DU64(), hn::MulEven(odd_to_even(v), odd_multiplier)), odd_nudge);
    return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<1>(odd)), hn::BitCast(d, hn::ShiftRight<31>(even)));
  }
  HWY_INLINE VI rescale(VI v) const {
    const VI q = high_product(hn::Shl(v, left));
    const VI t = hn::Add(q, hn::BroadcastSignBit(q));
    const VI shifted = hn::IfThenElse(whole, q, hn::ShiftRight<1>(hn::Add(hn::Shr(t, less), hn::Set(d, 1))));
    return hn::Add(hn::Min(hn::Max(shifted, low), high), zero);
  }
};

/// Fixed point of small accumulators, where all is added before one shift. A negative sum takes one off for
/// kFixedDouble, so that ties go away from zero; where negative results do not matter, neither does that. The
/// multipliers of kDoubleHalfAway need no such care (RequantizeParams::prepare).
template <Rounding R, Steps S>
requires(R != Rounding::kFloatHalfEven && S != Steps::kAll) struct ChannelFactors<R, S> {
  static constexpr DI d{};
  VI multiplier, odd_multiplier, shift;
  hn::Vec<DU64> even_nudge, odd_nudge;
  hn::Mask<DI> shifted;

  HWY_INLINE ChannelFactors(const RequantizeParams& r, int64_t channel) {
    multiplier = hn::LoadU(d, r.multipliers.data() + channel);
    odd_multiplier = odd_to_even(multiplier);
    shift = hn::LoadU(d, r.shifts.data() + channel);
    shifted = hn::Gt(shift, hn::Zero(d));
    VI half_product = hn::Set(d, INT32_MIN);
    if (R == Rounding::kDoubleHalfAway) half_product = hn::IfThenZeroElse(shifted, half_product);
    const VI half = hn::LoadU(d, r.offsets.data() + channel);
    even_nudge = as_pairs(hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(as_pairs(half))), half_product));
    odd_nudge = as_pairs(hn::OddEven(half, odd_to_even(half_product)));
  }
  HWY_INLINE VI rescale(VI v) const {
    const VI twice = hn::Add(v, v);
    const auto even = hn::Add(hn::BitCast(DU64(), hn::MulEven(twice, multiplier)), even_nudge);
    const auto odd = hn::Add(hn::BitCast(DU64(), hn::MulEven(odd_to_even(twice), odd_multiplier)), odd_nudge);
#if HWY_TARGET == HWY_AVX3
    VI q{_mm512_mask_shuffle_epi32(hn::BitCast(d, odd).raw, 0x5555, hn::BitCast(d, even).raw, _MM_PERM_DDBB)};
#else
    VI q = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
    if constexpr (R == Rounding::kFixedDouble && S == Steps::kSmall)
      q = hn::IfThenElse(shifted, hn::Add(q, hn::BroadcastSignBit(v)), q);
    return hn::Shr(q, shift);
  }
};

/// Stores the low `n` lanes as bytes, saturating.
template <bool kSigned>
HWY_INLINE void store_bytes(VI v, int64_t n, uint8_t* to) {
  const DI d;
  using T = std::conditional_t<kSigned, int8_t, uint8_t>;
#if HWY_TARGET == HWY_AVX3
  const __m128i bytes =
      kSigned ? _mm512_cvtsepi32_epi8(v.raw) : _mm512_cvtusepi32_epi8(_mm512_max_epi32(v.raw, _mm512_setzero_si512()));
  if (n == 16)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  else
    _mm_mask_storeu_epi8(to, static_cast<__mmask16>((1u << n) - 1), bytes);
#else
  const hn::Rebind<T, DI> d8;
  if (n == static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(hn::DemoteTo(d8, v), d8, reinterpret_cast<T*>(to));
    return;
  }
  HWY_ALIGN T bytes[HWY_MAX_BYTES];
  hn::StoreU(hn::DemoteTo(d8, v), d8, bytes);
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<uint8_t>(bytes[i]);
#endif
}

#if HWY_TARGET == HWY_AVX3
/// Pairs of rows of 32 channels.
template <Rounding R, Steps S, bool kSigned, bool kClamps>
HWY_INLINE void requantize_row_pairs(const RequantizeParams& r, const int32_t* acc, int64_t stride, int64_t rows,
                                     int64_t channel, uint8_t* out, int64_t out_stride) {
  constexpr DI d;
  constexpr int64_t kLanes = 16;
  const VI low = hn::Set(d, r.low), high = hn::Set(d, r.high);
  const ChannelFactors<R, S> factors[2] = {{r, channel}, {r, channel + kLanes}};
  const auto rescaled = [&](const int32_t* from, int part) HWY_ATTR {
    const VI v = factors[part].rescale(hn::LoadU(d, from + part * kLanes));
    return kClamps ? hn::Min(hn::Max(v, low), high) : v;
  };
  for (int64_t row = 0; row + 2 <= rows; row += 2, acc += 2 * stride, out += 2 * out_stride) {
    const int32_t* second = acc + stride;
    const __m512i bytes =
        narrow_four<kSigned>(rescaled(acc, 0), rescaled(acc, 1), rescaled(second, 0), rescaled(second, 1));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm512_castsi512_si256(bytes));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + out_stride), _mm512_extracti64x4_epi64(bytes, 1));
  }
}
#elif HWY_TARGET == HWY_AVX2
/// Pairs of rows of 16 channels.
template <Rounding R, Steps S, bool kSigned, bool kClamps>
HWY_INLINE void requantize_row_pairs(const RequantizeParams& r, const int32_t* acc, int64_t stride, int64_t rows,
                                     int64_t channel, uint8_t* out, int64_t out_stride) {
  using T = std::conditional_t<kSigned, int8_t, uint8_t>;
  using Bytes = hn::ScalableTag<T>;
  constexpr DI d;
  constexpr Bytes d8;
  constexpr int64_t kLanes = 8;
  const hn::Vec<Bytes> low = hn::Set(d8, static_cast<T>(r.low)), high = hn::Set(d8, static_cast<T>(r.high));
  const ChannelFactors<R, S> factors[2] = {{r, channel}, {r, channel + kLanes}};
  const auto rescaled = [&](const int32_t* from, int part)
                            HWY_ATTR { return factors[part].rescale(hn::LoadU(d, from + part * kLanes)); };
  for (int64_t row = 0; row + 2 <= rows; row += 2, acc += 2 * stride, out += 2 * out_stride) {
    const int32_t* second = acc + stride;
    hn::Vec<Bytes> bytes{
        narrow_four<kSigned>(rescaled(acc, 0), rescaled(acc, 1), rescaled(second, 0), rescaled(second, 1))};
    if (kClamps) bytes = hn::Min(hn::Max(bytes, low), high);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(bytes.raw));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + out_stride), _mm256_extracti128_si256(bytes.raw, 1));
  }
}
#endif

/// Row by row, a vector of channels after the other.
template <Rounding R, Steps S, bool kSigned, bool kClamps>
HWY_NOINLINE void requantize_rows(const RequantizeParams& r, const int32_t* acc, int64_t stride, int64_t rows,
                                  int64_t n, int64_t channel, uint8_t* out, int64_t out_stride) {
  const DI d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VI low = hn::Set(d, r.low), high = hn::Set(d, r.high);
  for (int64_t j = 0; j < n; j += lanes) {
    const ChannelFactors<R, S> f(r, channel + j);
    const auto columns = [&](int64_t count) HWY_ATTR {
      const int32_t* from = acc + j;
      uint8_t* to = out + j;
      for (int64_t row = 0; row < rows; ++row, from += stride, to += out_stride) {
        VI v = f.rescale(hn::LoadU(d, from));
        if constexpr (kClamps) v = hn::Min(hn::Max(v, low), high);
        store_bytes<kSigned>(v, count, to);
      }
    };
    if (n - j >= lanes)
      columns(lanes);
    else
      columns(n - j);
  }
}

template <Rounding R, Steps S, bool kSigned, bool kClamps>
void requantize_params(const RequantizeParams& r, const int32_t* acc, int64_t stride, int64_t rows, int64_t n,
                       int64_t channel, uint8_t* out, int64_t out_stride) {
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  constexpr int64_t kPair = 2 * HWY_MAX_BYTES / 4;
  if (rows > 1 && (HWY_TARGET == HWY_AVX2 ? n >= kPair : n == kPair)) {
    const int64_t paired = n / kPair * kPair, last = rows / 2 * 2;
    for (int64_t j = 0; j < paired; j += kPair)
      requantize_row_pairs<R, S, kSigned, kClamps>(r, acc + j, stride, rows, channel + j, out + j, out_stride);
    if (last < rows)
      requantize_rows<R, S, kSigned, kClamps>(r, acc + last * stride, stride, 1, paired, channel,
                                              out + last * out_stride, out_stride);
    acc += paired;
    n -= paired;
    channel += paired;
    out += paired;
  }
#endif
  if (n > 0) requantize_rows<R, S, kSigned, kClamps>(r, acc, stride, rows, n, channel, out, out_stride);
}

template <Rounding R, Steps S>
RequantizeAccumulators choose_range(const RequantizeParams& r) {
  // Saturation clamps to the whole range of the type. Narrowing to uint8 saturates only values of 16 bits where there
  // is no instruction for 32.
  const bool whole =
      r.is_signed ? r.low == -128 && r.high == 127 : HWY_TARGET == HWY_AVX3 && r.low == 0 && r.high == 255;
  if (S == Steps::kAll || whole)
    return r.is_signed ? requantize_params<R, S, true, false> : requantize_params<R, S, false, false>;
  return r.is_signed ? requantize_params<R, S, true, true> : requantize_params<R, S, false, true>;
}

template <Rounding R>
RequantizeAccumulators choose_steps(const RequantizeParams& r) {
  if (r.steps == Steps::kSmall) return choose_range<R, Steps::kSmall>(r);
  if constexpr (R == Rounding::kFixedDouble)
    if (r.steps == Steps::kPositive) return choose_range<R, Steps::kPositive>(r);
  return choose_range<R, Steps::kAll>(r);
}

RequantizeAccumulators choose(const RequantizeParams& r) {
  if (r.rounding == Rounding::kFixedDouble) return choose_steps<Rounding::kFixedDouble>(r);
  if (r.rounding == Rounding::kDoubleHalfAway) return choose_steps<Rounding::kDoubleHalfAway>(r);
  return choose_steps<Rounding::kFloatHalfEven>(r);
}

void least_numbers(const Progressions& p, int64_t n, std::array<uint32_t, Progressions::kCount>& least) {
  const hn::CappedTag<uint32_t, Progressions::kCount / 4> d;
  const size_t lanes = hn::Lanes(d);
  for (size_t i = 0; i < Progressions::kCount; i += 4 * lanes) {
    auto a0 = hn::LoadU(d, &p.first[i]), a1 = hn::LoadU(d, &p.first[i + lanes]),
         a2 = hn::LoadU(d, &p.first[i + 2 * lanes]), a3 = hn::LoadU(d, &p.first[i + 3 * lanes]);
    const auto s0 = hn::LoadU(d, &p.step[i]), s1 = hn::LoadU(d, &p.step[i + lanes]),
               s2 = hn::LoadU(d, &p.step[i + 2 * lanes]), s3 = hn::LoadU(d, &p.step[i + 3 * lanes]);
    auto m0 = hn::Set(d, ~0u), m1 = m0, m2 = m0, m3 = m0;
    for (int64_t k = 0; k < n; ++k) {
      m0 = hn::Min(m0, a0), m1 = hn::Min(m1, a1), m2 = hn::Min(m2, a2), m3 = hn::Min(m3, a3);
      a0 = hn::Add(a0, s0), a1 = hn::Add(a1, s1), a2 = hn::Add(a2, s2), a3 = hn::Add(a3, s3);
    }
    hn::StoreU(m0, d, &least[i]);
    hn::StoreU(m1, d, &least[i + lanes]);
    hn::StoreU(m2, d, &least[i + 2 * lanes]);
    hn::StoreU(m3, d, &least[i + 3 * lanes]);
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

LeastNumbers least_numbers_for(Isa isa) { return SMELT_FOR_LEVEL(isa, least_numbers); }

std::optional<RequantizeParams> requantize_params(const KernelSpec& spec, int64_t channels, const RescaleRule& rule) {
  auto made = RequantizeParams::make(spec, channels, rule, least_numbers_for(spec.isa));
  if (made && made->steps != RequantizeParams::Steps::kAll) made->double_factors = std::vector<double>();
  return made;
}

RequantizeAccumulators requantize_accumulators(Isa isa, const RequantizeParams& r) {
  return SMELT_FOR_LEVEL(isa, choose)(r);
}

}  // namespace smelt
#endif
