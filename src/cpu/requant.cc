#include "cpu/requant.h"

#include <algorithm>
#include <cmath>

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

/// Parameters of one vector of channels, ready for use.
struct ChannelFactors {
  static constexpr DI d{};
  hn::Vec<DF> factor, low_f, high_f;
  VI low, high, zero, multiplier, odd_multiplier, shift, less;
  hn::Vec<hn::Repartition<uint64_t, DI>> even_nudge, odd_nudge;
  hn::Mask<DI> whole;
  bool any_whole = true;

  template <Rounding R>
  HWY_INLINE void load(const Requant& r, int64_t channel) {
    const DF df;
    const hn::Repartition<uint64_t, DI> du64;
    zero = hn::Set(d, r.zero);
    low = hn::Set(d, r.low - r.zero);
    high = hn::Set(d, r.high - r.zero);
    if constexpr (R == Rounding::kFloatHalfEven) {
      factor = hn::LoadU(df, r.factors.data() + channel);
      low_f = hn::ConvertTo(df, low);
      high_f = hn::ConvertTo(df, high);
      return;
    }
    multiplier = hn::LoadU(d, r.multipliers.data() + channel);
    odd_multiplier = hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, multiplier)));
    shift = hn::LoadU(d, r.shifts.data() + channel);
    whole = hn::Eq(shift, hn::Zero(d));
    any_whole = !hn::AllFalse(d, whole);
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

  /// Fixed-point rules: a product rounded or cut to 31 bits less, then a right shift with rounding. Ties of the shift
  /// go away from zero for kFixedDouble, up for kFixedSingle.
  template <Rounding R>
  HWY_INLINE VI rescale(VI v) const {
    if constexpr (R == Rounding::kFloatHalfEven) {
      const DF df;
      const auto f = hn::Mul(hn::ConvertTo(df, v), factor);
      return hn::Add(hn::NearestInt(hn::Min(hn::Max(f, low_f), high_f)), zero);
    } else {
      const VI q = high_product(v);
      const VI t = R == Rounding::kFixedDouble ? hn::Add(q, hn::BroadcastSignBit(q)) : q;
      VI shifted = hn::ShiftRight<1>(hn::Add(hn::Shr(t, less), hn::Set(d, 1)));
      if (any_whole) shifted = hn::IfThenElse(whole, q, shifted);
      return hn::Add(hn::Min(hn::Max(shifted, low), high), zero);
    }
  }
};

template <Rounding R>
void requant(const Requant& r, const int32_t* sums, int64_t stride, int64_t rows, int64_t n, int64_t channel,
             uint8_t* out, int64_t out_stride) {
  const DI d;
  const hn::Rebind<int8_t, DI> d8;
  const hn::Rebind<uint8_t, DI> du8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    ChannelFactors f;
    f.template load<R>(r, channel + j);
    const int32_t* from = sums + j;
    uint8_t* to = out + j;
    if (r.is_signed)
      for (int64_t row = 0; row < rows; ++row, from += stride, to += out_stride)
        hn::StoreU(hn::DemoteTo(d8, f.template rescale<R>(hn::LoadU(d, from))), d8, reinterpret_cast<int8_t*>(to));
    else
      for (int64_t row = 0; row < rows; ++row, from += stride, to += out_stride)
        hn::StoreU(hn::DemoteTo(du8, f.template rescale<R>(hn::LoadU(d, from))), du8, to);
  }
  if (j == n) return;
  ChannelFactors f;
  f.template load<R>(r, channel + j);
  for (int64_t row = 0; row < rows; ++row) {
    HWY_ALIGN int32_t tail[HWY_MAX_BYTES / 4] = {};
    HWY_ALIGN uint8_t bytes[HWY_MAX_BYTES];
    std::copy(sums + row * stride + j, sums + row * stride + n, tail);
    const VI v = f.template rescale<R>(hn::Load(d, tail));
    if (r.is_signed)
      hn::StoreU(hn::DemoteTo(d8, v), d8, reinterpret_cast<int8_t*>(bytes));
    else
      hn::StoreU(hn::DemoteTo(du8, v), du8, bytes);
    std::copy_n(bytes, n - j, out + row * out_stride + j);
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
  r.shifts.resize(padded);
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
  return r;
}

}  // namespace smelt
#endif
