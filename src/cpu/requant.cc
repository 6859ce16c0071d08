#include "cpu/requant.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/requant.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ops/common/requantize.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DI = hn::ScalableTag<int32_t>;
using DF = hn::ScalableTag<float>;
using VI = hn::Vec<DI>;

/// How much can be left out when a vector of sums is rescaled.
enum class Steps : uint8_t {
  kAll,
  kSmall,     ///< twice the sum, the zero point times 2^shift and their sum fit 32 bits; kFixedDouble: no shift is 0
  kPositive,  ///< the same of any shift, and negative results are clamped to the zero point
};

/// Parameters of one vector of channels, ready for use.
struct ChannelFactors {
  static constexpr DI d{};
  hn::Vec<DF> factor, low_f, high_f;
  VI low, high, zero, multiplier, odd_multiplier, shift, less;
  hn::Vec<hn::Repartition<uint64_t, DI>> even_nudge, odd_nudge;
  hn::Mask<DI> whole;
  bool any_whole = true;
  Steps steps = Steps::kAll;

  template <Rounding R>
  HWY_INLINE void load(const Requant& r, int64_t channel) {
    const DF df;
    const hn::Repartition<uint64_t, DI> du64;
    zero = hn::Set(d, r.zero);
    if constexpr (R == Rounding::kFloatHalfEven) {
      factor = hn::LoadU(df, r.factors.data() + channel);
      low = hn::Set(d, r.low);
      high = hn::Set(d, r.high);
      low_f = hn::Set(df, static_cast<float>(r.low - r.zero));
      high_f = hn::Set(df, static_cast<float>(r.high - r.zero));
      const auto limit = hn::Set(df, static_cast<float>(1 << 29) / static_cast<float>(r.reach));
      if (hn::AllTrue(df, hn::Lt(hn::Abs(factor), limit))) steps = Steps::kSmall;
      return;
    }
    multiplier = hn::LoadU(d, r.multipliers.data() + channel);
    odd_multiplier = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, multiplier)));
    shift = hn::LoadU(d, r.shifts.data() + channel);
    whole = hn::Eq(shift, hn::Zero(d));
    any_whole = !hn::AllFalse(d, whole);
    if (r.reach < (1 << 29) && std::abs(r.zero) <= 255 && hn::AllTrue(d, hn::Lt(shift, hn::Set(d, 20)))) {
      if (R == Rounding::kFixedSingle || r.low >= r.zero)
        steps = Steps::kPositive;
      else if (!any_whole)
        steps = Steps::kSmall;
    }
    if (steps != Steps::kAll) {
      low = hn::Set(d, r.low);
      high = hn::Set(d, r.high);
      // (half + zero * 2^shift) * 2^32 + what rounds the product.
      const VI upper = hn::Add(hn::ShiftRight<1>(hn::Shl(hn::Set(d, 1), shift)), hn::Shl(zero, shift));
      VI lower = hn::Set(d, INT32_MIN);
      if (R == Rounding::kFixedSingle) lower = hn::IfThenElseZero(whole, lower);
      even_nudge = hn::Or(hn::ShiftLeft<32>(hn::BitCast(du64, upper)),
                          hn::ShiftRight<32>(hn::ShiftLeft<32>(hn::BitCast(du64, lower))));
      odd_nudge = hn::BitCast(du64, hn::OddEven(upper, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, lower)))));
      return;
    }
    low = hn::Set(d, r.low - r.zero);
    high = hn::Set(d, r.high - r.zero);
    less = hn::Sub(shift, hn::IfThenZeroElse(whole, hn::Set(d, 1)));
    VI nudge = hn::Set(d, 1 << 30);
    if (R == Rounding::kFixedSingle) nudge = hn::IfThenElseZero(whole, nudge);
    even_nudge = hn::And(hn::BitCast(du64, nudge), hn::Set(du64, 0xffffffffu));
    odd_nudge = hn::ShiftRight<32>(hn::BitCast(du64, nudge));
  }

  /// floor((v * multiplier + nudge) / 2^31) of every lane.
  HWY_INLINE VI high_product(VI v) const {
    const hn::Repartition<uint64_t, DI> du64;
    const VI odd_v = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, v)));
    const auto even = hn::Add(hn::BitCast(du64, hn::MulEven(v, multiplier)), even_nudge);
    const auto odd = hn::Add(hn::BitCast(du64, hn::MulEven(odd_v, odd_multiplier)), odd_nudge);
    return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<1>(odd)), hn::BitCast(d, hn::ShiftRight<31>(even)));
  }

  /// The same result as rescale() when `steps` allows it. kFixedDouble: all is added before the one shift; a negative
  /// sum takes one off, so that ties go away from zero.
  template <Rounding R, Steps S, bool kClamps>
  HWY_INLINE VI rescale_small(VI v) const {
    VI q;
    if constexpr (R == Rounding::kFloatHalfEven) {
      q = hn::Add(hn::NearestInt(hn::Mul(hn::ConvertTo(DF(), v), factor)), zero);
    } else {
      const hn::Repartition<uint64_t, DI> du64;
      const VI twice = hn::Add(v, v), odd_twice = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, twice)));
      const auto even = hn::Add(hn::BitCast(du64, hn::MulEven(twice, multiplier)), even_nudge);
      const auto odd = hn::Add(hn::BitCast(du64, hn::MulEven(odd_twice, odd_multiplier)), odd_nudge);
#if HWY_TARGET == HWY_AVX3
      q = VI{_mm512_mask_shuffle_epi32(hn::BitCast(d, odd).raw, 0x5555, hn::BitCast(d, even).raw, _MM_PERM_DDBB)};
#else
      q = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
      if constexpr (R == Rounding::kFixedDouble && S == Steps::kSmall) q = hn::Add(q, hn::BroadcastSignBit(v));
      q = hn::Shr(q, shift);
    }
    return kClamps ? hn::Min(hn::Max(q, low), high) : q;
  }

  /// Fixed-point rules: a product rounded or cut to 31 bits less, then a right shift with rounding. Ties of the shift
  /// go away from zero for kFixedDouble, up for kFixedSingle.
  template <Rounding R, bool kClamps>
  HWY_INLINE VI rescale(VI v) const {
    if constexpr (R == Rounding::kFloatHalfEven) {
      const DF df;
      const auto f = hn::Mul(hn::ConvertTo(df, v), factor);
      return hn::Add(hn::NearestInt(hn::Min(hn::Max(f, low_f), high_f)), zero);
    } else {
      const VI q = high_product(v);
      const VI t = R == Rounding::kFixedDouble ? hn::Add(q, hn::BroadcastSignBit(q)) : q;
      VI shifted = hn::ShiftRight<1>(hn::Add(hn::Shr(t, less), hn::Set(d, 1)));
      if constexpr (!kClamps) return hn::Add(shifted, zero);
      if (any_whole) shifted = hn::IfThenElse(whole, q, shifted);
      return hn::Add(hn::Min(hn::Max(shifted, low), high), zero);
    }
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

template <Rounding R, Steps S, bool kSigned, bool kClamps>
HWY_INLINE void requant_columns(const ChannelFactors& f, const int32_t* from, int64_t stride, int64_t rows, int64_t n,
                                uint8_t* to, int64_t out_stride) {
  const DI d;
  for (int64_t row = 0; row < rows; ++row, from += stride, to += out_stride) {
    const VI v = hn::LoadU(d, from);
    if constexpr (S == Steps::kAll)
      store_bytes<kSigned>(f.template rescale<R, kClamps>(v), n, to);
    else
      store_bytes<kSigned>(f.template rescale_small<R, S, kClamps>(v), n, to);
  }
}

template <Rounding R, Steps S, bool kClamps>
HWY_INLINE void requant_typed(const Requant& r, const ChannelFactors& f, const int32_t* from, int64_t stride,
                              int64_t rows, int64_t n, uint8_t* to, int64_t out_stride) {
  (r.is_signed ? requant_columns<R, S, true, kClamps> : requant_columns<R, S, false, kClamps>)(f, from, stride, rows, n,
                                                                                               to, out_stride);
}

template <Rounding R>
void requant(const Requant& r, const int32_t* sums, int64_t stride, int64_t rows, int64_t n, int64_t channel,
             uint8_t* out, int64_t out_stride) {
  const DI d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  // Saturation clamps to the whole range of the type; shifts leave room for the zero point.
  // Narrowing to uint8 saturates only values of 16 bits where there is no instruction for 32.
  const bool whole_range =
      r.is_signed ? r.low == -128 && r.high == 127 : HWY_TARGET == HWY_AVX3 && r.low == 0 && r.high == 255;
  for (int64_t j = 0; j < n; j += lanes) {
    ChannelFactors f;
    f.template load<R>(r, channel + j);
    const int64_t here = std::min(lanes, n - j);
    const auto columns = [&](auto steps, auto clamps) {
      requant_typed<R, decltype(steps)::value, decltype(clamps)::value>(r, f, sums + j, stride, rows, here, out + j,
                                                                        out_stride);
    };
    const auto clamped = [&](auto steps) {
      whole_range ? columns(steps, std::false_type()) : columns(steps, std::true_type());
    };
    if (f.steps == Steps::kSmall)
      clamped(std::integral_constant<Steps, Steps::kSmall>());
    else if (R != Rounding::kFloatHalfEven && f.steps == Steps::kPositive)
      clamped(std::integral_constant<Steps, Steps::kPositive>());
    else if (R == Rounding::kFloatHalfEven || !whole_range || f.any_whole)
      columns(std::integral_constant<Steps, Steps::kAll>(), std::true_type());
    else
      columns(std::integral_constant<Steps, Steps::kAll>(), std::false_type());
  }
}

void requant_rows_any(const Requant& r, const int32_t* sums, int64_t stride, int64_t rows, int64_t n, int64_t channel,
                      uint8_t* out, int64_t out_stride) {
  switch (r.rounding) {
    case Rounding::kFloatHalfEven:
      return requant<Rounding::kFloatHalfEven>(r, sums, stride, rows, n, channel, out, out_stride);
    case Rounding::kFixedDouble:
      return requant<Rounding::kFixedDouble>(r, sums, stride, rows, n, channel, out, out_stride);
    case Rounding::kFixedSingle:
      return requant<Rounding::kFixedSingle>(r, sums, stride, rows, n, channel, out, out_stride);
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

RequantRows requant_rows(Isa isa) { return SMELT_FOR_LEVEL(isa, requant_rows_any); }

namespace {

/// Bound of the sums of products of bytes, zero points subtracted, of `channels` columns of w with these addends.
int64_t largest_sum(const ValueType& w, int64_t channels, const std::vector<int32_t>& bias) {
  constexpr int64_t kMax = INT32_MAX;
  const auto& zeros = w.quant->zero_points;
  const bool plain = w.dtype == DType::kI8 && std::all_of(zeros.begin(), zeros.end(), [](int32_t z) { return z == 0; });
  const int64_t terms = w.shape.elements() / std::max<int64_t>(channels, 1), term = 255 * (plain ? 128 : 384);
  if (terms > kMax / term) return kMax;
  int64_t most = 0;
  for (int32_t b : bias) most = std::max(most, std::abs(static_cast<int64_t>(b)));
  return std::min(kMax, terms * term + most);
}

}  // namespace

std::optional<Requant> Requant::make(const KernelSpec& spec, int64_t channels, const Activation& act, Rounding rounding,
                                     double alpha) {
  const DType out = spec.outputs[0].dtype;
  if (out != DType::kI8 && out != DType::kU8) return std::nullopt;
  const auto typed = [](const ValueType& t) {
    Tensor tensor = Tensor::view(t.dtype, t.shape, nullptr, nullptr);
    tensor.set_quant(t.quant);
    return tensor;
  };
  const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
  if (spec.has(2) && !bias) return std::nullopt;
  if (!spec.inputs[0].quant || !spec.inputs[1].quant || !spec.outputs[0].quant) return std::nullopt;
  const auto made = Requantizer::make(typed(spec.inputs[0]), typed(spec.inputs[1]), bias, typed(spec.outputs[0]),
                                      channels, act, rounding, alpha);
  if (!made.ok() || !made->integer_only()) return std::nullopt;
  Requant r;
  r.rounding = rounding;
  r.is_signed = out == DType::kI8;
  r.zero = static_cast<int32_t>(made->zero());
  r.low = static_cast<int32_t>(made->low());
  r.high = static_cast<int32_t>(made->high());
  if (std::abs(made->zero()) > (1 << 20)) return std::nullopt;
  const size_t padded = static_cast<size_t>(channels) + 64;
  r.factors.resize(padded);
  r.multipliers.resize(padded);
  r.shifts.resize(padded, 1);
  r.bias.resize(static_cast<size_t>(channels));
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const float factor = made->factors()[c % made->factors().size()];
    const FixedFactor fixed = made->fixed()[c % made->fixed().size()];
    if (!std::isfinite(factor) || (rounding != Rounding::kFloatHalfEven && (fixed.shift > 0 || fixed.shift < -31)))
      return std::nullopt;
    r.factors[c] = factor;
    r.multipliers[c] = fixed.multiplier;
    r.shifts[c] = -fixed.shift;
    const auto& b = made->bias();
    r.bias[c] = b.empty() ? 0 : static_cast<int32_t>(b[b.size() == 1 ? 0 : c]);
  }
  r.reach = largest_sum(spec.inputs[1], channels, r.bias);
  return r;
}

}  // namespace smelt
#endif
