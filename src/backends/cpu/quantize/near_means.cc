#include "backends/cpu/quantize/near_means.h"

#include <cmath>
#include <cstdlib>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/quantize/near_means.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"
#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

int64_t near_means_of(const NearMeans& m, const int32_t* sums, int64_t first, int64_t n, uint8_t* y) {
  // Stores all lanes. Returns the first that is not sure; -1: there is none.
  const auto step = [&](auto di, int64_t i) HWY_ATTR {
    const hn::RebindToFloat<decltype(di)> df;
    const hn::RebindToUnsigned<decltype(di)> du;
    const hn::Rebind<uint8_t, decltype(di)> d8;
    const auto real =
        hn::Mul(hn::ConvertTo(df, hn::Sub(hn::LoadU(di, sums + i), hn::Set(di, m.offset))), hn::Set(df, m.factor));
    const auto nearest = nearest_in_range(real);
    const auto off = hn::Abs(hn::Sub(real, hn::ConvertTo(df, nearest)));
    const auto bytes = hn::Min(hn::Max(hn::Add(nearest, hn::Set(di, m.zero)), hn::Set(di, m.low)), hn::Set(di, m.high));
    hn::StoreU(hn::TruncateTo(d8, hn::BitCast(du, bytes)), d8, y + i);
    return hn::FindFirstTrue(df, hn::Not(hn::Lt(off, hn::Set(df, m.sure))));
  };
  const hn::ScalableTag<int32_t> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = first;
  for (; i + lanes <= n; i += lanes)
    if (const auto lane = step(d, i); lane >= 0) return i + lane;
  for (; i < n; ++i)
    if (step(hn::CappedTag<int32_t, 1>(), i) >= 0) return i;
  return n;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

NearMeans::NearMeans(const QuantParams& x, const QuantParams& y, int64_t count, int64_t divisor) : zero(y.zero_point) {
  constexpr double kError = 0x1p-20;  // six roundings of 2^-24 each, and what they do to each other
  constexpr int64_t kMost = 255;      // of a zero point, and of a byte
  if (std::abs(int64_t{x.zero_point}) > kMost) return;
  offset = static_cast<int32_t>(count * x.zero_point);
  const double step = static_cast<double>(x.scale) / static_cast<double>(y.scale) / static_cast<double>(divisor);
  const double error = step * static_cast<double>(2 * kMost * count) * kError;
  factor = static_cast<float>(step);
  if (error < 0.25) sure = static_cast<float>(0.5 - error);
}

bool NearMeans::often_midway() const {
  constexpr int kOften = 32;  // one of so many sums
  const auto step = static_cast<double>(factor);
  for (int sum = 1; sum <= kOften; ++sum)
    if (std::abs(sum * step - std::floor(sum * step) - 0.5) < 1e-3) return true;
  return false;
}

NearMeansFn near_means(Isa isa) { return SMELT_FOR_LEVEL(isa, near_means_of); }

}  // namespace smelt
#endif
