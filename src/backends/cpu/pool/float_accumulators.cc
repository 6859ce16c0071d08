#include "backends/cpu/pool/float_accumulators.h"

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/pool/float_accumulators.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
void sum_real_bytes(const uint8_t* const* taps, int64_t count, int64_t n, float scale, int32_t zero_point,
                    double* sums) {
  for_lanes<double>(n, [&](auto d64, int64_t c) HWY_ATTR {
    const hn::Rebind<float, decltype(d64)> d32;
    const hn::Rebind<int32_t, decltype(d64)> di;
    const hn::Rebind<T, decltype(d64)> d8;
    auto sum = hn::Zero(d64);
    for (int64_t t = 0; t < count; ++t) {
      const auto bytes = hn::LoadU(d8, reinterpret_cast<const T*>(taps[t]) + c);
      const auto whole = hn::ConvertTo(d32, hn::Sub(hn::PromoteTo(di, bytes), hn::Set(di, zero_point)));
      sum = hn::Add(sum, hn::PromoteTo(d64, hn::Mul(hn::Set(d32, scale), whole)));
    }
    hn::StoreU(sum, d64, sums + c);
  });
}

void sum_real(const uint8_t* const* taps, int64_t count, int64_t n, bool is_signed, float scale, int32_t zero_point,
              double* sums) {
  (is_signed ? sum_real_bytes<int8_t> : sum_real_bytes<uint8_t>)(taps, count, n, scale, zero_point, sums);
}

void sum_windows(const double* x, int64_t stride, int64_t step, int64_t count, int64_t n, double* sums) {
  if (stride > 2) {
    for (int64_t i = 0; i < n; ++i) {
      sums[i] = 0;
      for (int64_t t = 0; t < count; ++t) sums[i] += x[i * stride + t * step];
    }
    return;
  }
  for_lanes<double>(n, [&](auto d, int64_t i) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t) {
      const double* const from = x + i * stride + t * step;
      auto even = hn::Zero(d), odd = hn::Zero(d);
      if (stride == 1)
        even = hn::LoadU(d, from);
      else
        hn::LoadInterleaved2(d, from, even, odd);
      sum = hn::Add(sum, even);
    }
    hn::StoreU(sum, d, sums + i);
  });
}

void mean_real(const double* sums, int64_t n, double divisor, float lo, float hi, float* means) {
  for_lanes<double>(n, [&](auto d64, int64_t c) HWY_ATTR {
    const hn::Rebind<float, decltype(d64)> d32;
    const auto mean = hn::DemoteTo(d32, hn::Div(hn::LoadU(d64, sums + c), hn::Set(d64, divisor)));
    hn::StoreU(clamp(mean, hn::Set(d32, lo), hn::Set(d32, hi)), d32, means + c);
  });
}

FloatAccumulators make_float_accumulators() { return {sum_real, sum_windows, mean_real}; }

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const FloatAccumulators& float_accumulators(Isa isa) {
  return of_level(isa, [](Isa level) { return SMELT_FOR_LEVEL(level, make_float_accumulators)(); });
}

}  // namespace smelt
#endif
