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

/// floor((v * multiplier + nudge) / 2^31) of every lane; nudge is added in 64 bits.
HWY_INLINE VI high_product(VI v, VI multiplier, VI nudge) {
  const DI d;
  const hn::Repartition<int64_t, DI> d64;
  const hn::Repartition<uint64_t, DI> du64;
  const auto low = hn::Set(du64, 0xffffffffu);
  const auto odd = [&](VI x) HWY_ATTR { return hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(du64, x))); };
  const auto even_nudge = hn::And(hn::BitCast(du64, nudge), low);
  const auto odd_nudge = hn::ShiftRight<32>(hn::BitCast(du64, nudge));
  const auto even_product = hn::BitCast(du64, hn::BitCast(d64, hn::MulEven(v, multiplier)));
  const auto odd_product = hn::BitCast(du64, hn::BitCast(d64, hn::MulEven(odd(v), odd(multiplier))));
  const auto even = hn::ShiftRight<31>(hn::Add(even_product, even_nudge));
  const auto odds = hn::ShiftLeft<1>(hn::Add(odd_product, odd_nudge));
  return hn::OddEven(hn::BitCast(d, odds), hn::BitCast(d, even));
}

template <Rounding R>
HWY_INLINE VI rescale(const Requant& r, VI v, int64_t channel, VI low, VI high) {
  const DI d;
  if constexpr (R == Rounding::kFloatHalfEven) {
    const DF df;
    auto f = hn::Mul(hn::ConvertTo(df, v), hn::LoadU(df, r.factors.data() + channel));
    f = hn::Min(hn::Max(f, hn::ConvertTo(df, low)), hn::ConvertTo(df, high));
    return hn::NearestInt(f);
  } else {
    const VI multiplier = hn::LoadU(d, r.multipliers.data() + channel);
    const VI shift = hn::LoadU(d, r.shifts.data() + channel);
    const VI one = hn::Set(d, 1);
    if constexpr (R == Rounding::kFixedDouble) {
      const VI q = high_product(v, multiplier, hn::Set(d, 1 << 30));
      const VI mask = hn::Sub(hn::Shl(one, shift), one);
      const VI threshold = hn::Sub(hn::ShiftRight<1>(mask), hn::BroadcastSignBit(q));
      const VI up = hn::VecFromMask(d, hn::Gt(hn::And(q, mask), threshold));  // -1 where the remainder rounds up
      v = hn::Sub(hn::Shr(q, shift), up);
    } else {
      const auto whole = hn::Eq(shift, hn::Zero(d));
      const VI q = high_product(v, multiplier, hn::IfThenElseZero(whole, hn::Set(d, 1 << 30)));
      const VI most = hn::Shr(q, hn::Sub(shift, hn::IfThenZeroElse(whole, one)));
      v = hn::IfThenElse(whole, q, hn::ShiftRight<1>(hn::Add(most, one)));
    }
    return hn::Min(hn::Max(v, low), high);
  }
}

/// low and high are the bounds before the zero point is added.
template <Rounding R>
void requant(const Requant& r, const int32_t* sums, int64_t stride, int64_t rows, int64_t n, int64_t channel,
             uint8_t* out, int64_t out_stride) {
  const DI d;
  const hn::Rebind<int8_t, DI> d8;
  const hn::Rebind<uint8_t, DI> du8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const VI zero = hn::Set(d, r.zero), low = hn::Set(d, r.low - r.zero), high = hn::Set(d, r.high - r.zero);
  const auto store = [&](VI v, uint8_t* to) HWY_ATTR {
    if (r.is_signed)
      hn::StoreU(hn::DemoteTo(d8, v), d8, reinterpret_cast<int8_t*>(to));
    else
      hn::StoreU(hn::DemoteTo(du8, v), du8, to);
  };
  for (int64_t row = 0; row < rows; ++row) {
    const int32_t* from = sums + row * stride;
    uint8_t* to = out + row * out_stride;
    int64_t j = 0;
    for (; j + lanes <= n; j += lanes)
      store(hn::Add(rescale<R>(r, hn::LoadU(d, from + j), channel + j, low, high), zero), to + j);
    if (j < n) {
      HWY_ALIGN int32_t tail[HWY_MAX_BYTES / 4] = {};
      HWY_ALIGN uint8_t bytes[HWY_MAX_BYTES];
      std::copy(from + j, from + n, tail);
      store(hn::Add(rescale<R>(r, hn::Load(d, tail), channel + j, low, high), zero), bytes);
      std::copy_n(bytes, n - j, to + j);
    }
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
