#include "backends/cpu/pool/integer_means.h"

#include <algorithm>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool/integer_means.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The quotients of sums by `count` whose magnitude is below 2^15.
class Quotient {
 public:
  explicit Quotient(int64_t count) : half_(static_cast<float>(count / 2)), inverse_(1.0f / static_cast<float>(count)) {}
  /// Rounded half away from zero. A quotient that is no integer is 1/128 or more below the next, the product with the
  /// inverse less than 2^-14 off: adding 2^-9 before the fraction is cut off makes up for that, and for no more.
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V operator()(D di, V sum) const {
    const hn::RebindToFloat<D> df;
    const auto real = hn::ConvertTo(df, sum);
    const auto above = hn::Add(hn::Abs(real), hn::Set(df, half_));
    return hn::ConvertTo(di, hn::CopySign(hn::MulAdd(above, hn::Set(df, inverse_), hn::Set(df, 0x1p-9f)), real));
  }

 private:
  float half_, inverse_;
};

template <class T>
void means_of(const uint8_t* const* taps, int64_t count, int64_t n, int lo, int hi, uint8_t* y) {
  const hn::ScalableTag<int16_t> d;
  const hn::Rebind<T, decltype(d)> d8;
  const hn::Half<decltype(d)> d_half;
  const hn::RepartitionToWide<decltype(d)> d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const Quotient quotient(count);
  const auto low = hn::Set(d, static_cast<int16_t>(lo)), high = hn::Set(d, static_cast<int16_t>(hi));
  const auto columns = [&](int64_t c) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t)
      sum = hn::Add(sum, hn::PromoteTo(d, hn::LoadU(d8, reinterpret_cast<const T*>(taps[t] + c))));
    const auto lower = quotient(d32, hn::PromoteTo(d32, hn::LowerHalf(d_half, sum)));
    const auto upper = quotient(d32, hn::PromoteTo(d32, hn::UpperHalf(d_half, sum)));
    const auto means = hn::Combine(d, hn::DemoteTo(d_half, upper), hn::DemoteTo(d_half, lower));
    hn::StoreU(hn::DemoteTo(d8, hn::Min(hn::Max(means, low), high)), d8, reinterpret_cast<T*>(y + c));
  };
  if (n >= lanes) {
    for (int64_t c = 0; c + lanes <= n; c += lanes) columns(c);
    if (n % lanes) columns(n - lanes);
    return;
  }
  const auto divisor = static_cast<int32_t>(count);
  for (int64_t c = 0; c < n; ++c) {
    int32_t sum = 0;
    for (int64_t t = 0; t < count; ++t) sum += reinterpret_cast<const T*>(taps[t])[c];
    const int32_t mean = (sum > 0 ? sum + divisor / 2 : sum - divisor / 2) / divisor;
    y[c] = static_cast<uint8_t>(std::clamp(mean, lo, hi));
  }
}

void means(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, int lo, int hi, uint8_t* y) {
  (is_signed ? means_of<int8_t> : means_of<uint8_t>)(taps, count, n, lo, hi, y);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

IntegerMeans integer_means(Isa isa) { return SMELT_FOR_LEVEL(isa, means); }

}  // namespace smelt
#endif
