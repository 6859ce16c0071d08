#include "backends/cpu/conv/rescale_i16.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/rescale_i16.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/isa.h"
#include "ops/common/requantizer.h"
#include "tensor/quant_params.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D64 = hn::ScalableTag<int64_t>;
using V64 = hn::Vec<D64>;
using D32 = hn::Rebind<int32_t, D64>;
using Kind = RescaleI16Rule::Kind;

HWY_INLINE V64 load_wide(const int64_t* from) { return hn::LoadU(D64(), from); }
HWY_INLINE V64 load_wide(const int32_t* from) { return hn::PromoteTo(D64(), hn::LoadU(D32(), from)); }

/// (sum * multiplier + half) >> shift within [low, high]. The sum is below 2^44, the multiplier below 2^15.
HWY_INLINE hn::Vec<D32> wide16(V64 sum, const RescaleI16Rule& r, int64_t i) {
  const D64 d;
  const hn::RebindToUnsigned<D64> du;
  // Above zero, logical shifts are arithmetic ones.
  const auto offset = hn::Set(d, int64_t{1} << 62);
  const auto shift = hn::BitCast(du, hn::LoadU(d, r.shift + i));
  const auto product = hn::Add(hn::Mul(sum, hn::LoadU(d, r.multiplier + i)), hn::LoadU(d, r.half + i));
  const auto shifted = [&](V64 v) HWY_ATTR { return hn::BitCast(d, hn::Shr(hn::BitCast(du, v), shift)); };
  const auto q = hn::Sub(shifted(hn::Add(product, offset)), shifted(offset));
  const auto bounded = hn::Min(hn::Max(q, hn::Set(d, r.low)), hn::Set(d, r.high));
  return hn::BitCast(D32(), hn::TruncateTo(hn::RebindToUnsigned<D32>(), hn::BitCast(du, bounded)));
}

/// rescale_single()
HWY_INLINE hn::Vec<D32> single(V64 sum, const RescaleI16Rule& r, int64_t i) {
  const hn::RebindToFloat<D64> d;
  const auto scaled = hn::Mul(hn::ConvertTo(d, sum), hn::LoadU(d, r.factor + i));
  const auto v = hn::Min(hn::Max(scaled, hn::Set(d, -2147483648.0)), hn::Set(d, 2147483647.0));
  return hn::DemoteTo(D32(), hn::Add(v, hn::CopySign(hn::Set(d, kAlmostHalf), v)));
}

template <class Acc>
void rescale_i16_row(const RescaleI16Rule& r, const Acc* acc, int64_t n, int16_t* y) {
  const D64 d;
  const D32 d32;
  const hn::Rebind<int16_t, D64> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d32, r.low), high = hn::Set(d32, r.high), zero = hn::Set(d32, r.zero);
  int64_t i = 0;
  const auto rows = [&](auto rescaled) HWY_ATTR {
    for (; i + lanes <= n; i += lanes) {
      const auto sum = hn::Add(load_wide(acc + i), hn::LoadU(d, r.bias + i));
      const auto q = hn::Min(hn::Max(rescaled(sum), low), high);
      hn::StoreU(hn::DemoteTo(d16, hn::Add(q, zero)), d16, y + i);
    }
  };
  if (r.kind == Kind::kWide16)
    rows([&](V64 sum) HWY_ATTR { return wide16(sum, r, i); });
  else if (r.kind == Kind::kSingle)
    rows([&](V64 sum) HWY_ATTR { return single(sum, r, i); });
  else if (r.kind == Kind::kNarrowSingle)
    rows([&](V64 sum) HWY_ATTR { return single(hn::ShiftRight<32>(hn::ShiftLeft<32>(sum)), r, i); });
  for (; i < n; ++i) {
    const int64_t sum = acc[i] + r.bias[i];
    int64_t q = 0;
    switch (r.kind) {
      case Kind::kWide16:
        q = (sum * r.multiplier[i] + r.half[i]) >> r.shift[i];
        break;
      case Kind::kNarrow:
        q = rescale_double(static_cast<int32_t>(sum), r.fixed[i]);
        break;
      case Kind::kSingle:
        q = rescale_single(sum, r.factor[i]);
        break;
      case Kind::kNarrowSingle:
        q = rescale_single(static_cast<int32_t>(sum), r.factor[i]);
        break;
    }
    y[i] = static_cast<int16_t>(std::clamp<int64_t>(q, r.low, r.high) + r.zero);
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

[[gnu::cold]] RescaleI16::RescaleI16(RescaleI16&& from) noexcept = default;
[[gnu::cold]] RescaleI16::~RescaleI16() = default;

std::optional<RescaleI16> RescaleI16::make(const KernelSpec& spec, int64_t channels, const RescaleRule& rule) {
  using Kind = RescaleI16Rule::Kind;
  const auto made = Requantizer::make(type_only(spec.inputs[0]), type_only(spec.inputs[1]), spec.constant(2),
                                      type_only(spec.outputs[0]), channels, rule);
  constexpr int64_t kMostZero = 1 << 16;
  if (!made.ok() || !made->fixed_point()) return std::nullopt;
  if (made->zero() > kMostZero || made->zero() < -kMostZero) return std::nullopt;
  RescaleI16 r;
  const bool single = rule.rounding == Rounding::kDoubleHalfAway;
  r.kind_ = made->wide() ? (single ? Kind::kSingle : Kind::kWide16) : (single ? Kind::kNarrowSingle : Kind::kNarrow);
  r.zero_ = static_cast<int32_t>(made->zero());
  r.low_ = static_cast<int32_t>(made->low() - made->zero());
  r.high_ = static_cast<int32_t>(made->high() - made->zero());
  const std::vector<int64_t>& bias = made->bias();
  const auto all = static_cast<size_t>(channels);
  const bool wide16 = r.kind_ == Kind::kWide16, narrow = r.kind_ == Kind::kNarrow;
  r.bias_.resize(all);
  for (auto* of_wide : {&r.multiplier_, &r.half_, &r.shift_}) of_wide->resize(wide16 ? all : 0);
  r.fixed_.resize(narrow ? all : 0);
  r.factor_.resize(single ? all : 0);
  for (size_t c = 0; c < all; ++c) {
    const FixedFactor factor = made->fixed()[c % made->fixed().size()];
    if (narrow) r.fixed_[c] = factor;
    if (single) r.factor_[c] = made->double_factors()[c % made->double_factors().size()];
    r.bias_[c] = bias.empty() ? 0 : bias[bias.size() == 1 ? 0 : c];
    // Sums of products stay below 2^43.
    constexpr int64_t kMostBias = int64_t{1} << 40;
    if (r.bias_[c] > kMostBias || r.bias_[c] < -kMostBias) return std::nullopt;
    if (wide16) {  // wide_product() in 64 bits
      const int64_t shift = 15 - factor.shift;
      if (shift < 1 || shift > 62) return std::nullopt;
      r.multiplier_[c] = factor.multiplier < 0x7fff0000 ? (factor.multiplier + (1 << 15)) >> 16 : 0x7fff;
      r.shift_[c] = shift;
      r.half_[c] = int64_t{1} << (shift - 1);
    }
  }
  r.row_of_32_bits_ = SMELT_FOR_LEVEL(spec.isa, rescale_i16_row<int32_t>);
  r.row_of_64_bits_ = SMELT_FOR_LEVEL(spec.isa, rescale_i16_row<int64_t>);
  return r;
}

RescaleI16Rule RescaleI16::from(int64_t channel) const {
  using Kind = RescaleI16Rule::Kind;
  const int64_t wide = kind_ == Kind::kWide16 ? channel : 0, narrow = kind_ == Kind::kNarrow ? channel : 0,
                single = wide || narrow ? 0 : channel;
  return {kind_,
          zero_,
          low_,
          high_,
          bias_.data() + channel,
          multiplier_.data() + wide,
          half_.data() + wide,
          shift_.data() + wide,
          fixed_.data() + narrow,
          factor_.data() + single};
}

std::optional<QuantizedPair> pair_of_i16(const KernelSpec& spec, int axis, int64_t channels) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.quant->zero_point() != 0 || y.shape.elements() == 0)
    return std::nullopt;
  // The filter is like one of 8-bit activations.
  ValueType bytes = ValueType::tensor(DType::kI8, x.shape);
  bytes.quant = x.quant;
  return QuantizedPair::make(bytes, spec.inputs[1], axis, channels);
}

bool fits_32_bits(std::span<const int16_t> weights) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / -std::numeric_limits<int16_t>::min();
  int64_t total = 0;
  for (const int16_t w : weights) total += std::abs(w);
  return total <= kMost;
}

}  // namespace smelt
#endif  // HWY_ONCE
