#include "backends/cpu/pool/float_accumulators.h"

#include <algorithm>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool/float_accumulators.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D64 = hn::ScalableTag<double>;
using D32 = hn::Rebind<float, D64>;

template <class T>
void sum_real_bytes(const uint8_t* const* taps, int64_t count, int64_t n, float scale, int32_t zero_point,
                    double* sums) {
  const D64 d64;
  const D32 d32;
  const hn::Rebind<int32_t, D64> di;
  const hn::Rebind<T, D64> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d64));
  const auto zero = hn::Set(di, zero_point);
  const auto step = hn::Set(d32, scale);
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    auto sum = hn::Zero(d64);
    for (int64_t t = 0; t < count; ++t) {
      const auto bytes = hn::LoadU(d8, reinterpret_cast<const T*>(taps[t]) + c);
      const auto whole = hn::ConvertTo(d32, hn::Sub(hn::PromoteTo(di, bytes), zero));
      sum = hn::Add(sum, hn::PromoteTo(d64, hn::Mul(step, whole)));
    }
    hn::StoreU(sum, d64, sums + c);
  }
  for (; c < n; ++c) {
    sums[c] = 0;
    for (int64_t t = 0; t < count; ++t)
      sums[c] += scale * static_cast<float>(reinterpret_cast<const T*>(taps[t])[c] - zero_point);
  }
}

void sum_real(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, float scale, int32_t zero_point,
              double* sums) {
  (is_signed ? sum_real_bytes<int8_t> : sum_real_bytes<uint8_t>)(taps, count, n, scale, zero_point, sums);
}

void mean_real(const double* sums, int64_t n, double divisor, float lo, float hi, float* means) {
  const D64 d64;
  const D32 d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d64));
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) {
    const auto mean = hn::DemoteTo(d32, hn::Div(hn::LoadU(d64, sums + c), hn::Set(d64, divisor)));
    hn::StoreU(hn::Min(hn::Max(mean, hn::Set(d32, lo)), hn::Set(d32, hi)), d32, means + c);
  }
  for (; c < n; ++c) means[c] = std::clamp(static_cast<float>(sums[c] / divisor), lo, hi);
}

FloatAccumulators make_float_accumulators() { return {sum_real, mean_real}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const FloatAccumulators& float_accumulators(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_float_accumulators)(); });
}

}  // namespace smelt
#endif
