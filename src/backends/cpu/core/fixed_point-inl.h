// Fixed-point arithmetic of TFLite's integer kernels in vectors of 32-bit lanes, equal to ops/common/fixed_point.h bit
// by bit. Once a target.
#include "ops/common/fixed_point.h"

#if defined(SMELT_CPU_FIXED_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_FIXED_INL_H_
#undef SMELT_CPU_FIXED_INL_H_
#else
#define SMELT_CPU_FIXED_INL_H_
#endif

#include <cstring>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DI = hn::ScalableTag<int32_t>;
using DU64 = hn::Repartition<uint64_t, DI>;
using VI = hn::Vec<DI>;

HWY_INLINE hn::Vec<DU64> product_of_even(VI a, VI b) { return hn::BitCast(DU64(), hn::MulEven(a, b)); }
HWY_INLINE VI odd_to_even(VI v) { return hn::BitCast(DI(), hn::ShiftRight<32>(hn::BitCast(DU64(), v))); }

/// rescale_double() by one factor of at most 1, plus `zero`. kSmall: nothing of it leaves 32 bits.
template <bool kSmall>
struct Rescale {
  static constexpr DI d{};
  VI multiplier, sign, zero;
  hn::Vec<DU64> nudge;
  int shift;

  HWY_INLINE Rescale(FixedFactor f, int32_t zero_point) : shift(-f.shift) {
    multiplier = hn::Set(d, f.multiplier);
    sign = hn::Set(d, shift ? -1 : 0);
    zero = hn::Set(d, zero_point);
    if constexpr (kSmall) {
      const int64_t half = (int64_t{1} << shift >> 1) + zero_point * (int64_t{1} << shift);
      nudge = hn::Set(DU64(), (static_cast<uint64_t>(half) << 32) + 0x80000000u);
    } else {
      nudge = hn::Set(DU64(), uint64_t{1} << 30);
    }
  }
  HWY_INLINE VI operator()(VI v) const {
    if constexpr (kSmall) {
      const VI twice = hn::Add(v, v);
      const auto even = hn::Add(product_of_even(twice, multiplier), nudge);
      const auto odd = hn::Add(product_of_even(odd_to_even(twice), multiplier), nudge);
      const VI q = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
      return hn::ShiftRightSame(hn::Add(q, hn::And(hn::BroadcastSignBit(v), sign)), shift);
    } else {
      const auto even = hn::Add(product_of_even(v, multiplier), nudge);
      const auto odd = hn::Add(product_of_even(odd_to_even(v), multiplier), nudge);
      const VI q = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<1>(odd)), hn::BitCast(d, hn::ShiftRight<31>(even)));
      if (shift == 0) return hn::Add(q, zero);
      const VI t = hn::ShiftRightSame(hn::Add(q, hn::BroadcastSignBit(q)), shift - 1);
      return hn::Add(hn::ShiftRight<1>(hn::Add(t, hn::Set(d, 1))), zero);
    }
  }
};

/// rounding_doubling_high_mul() of every lane; not both are INT32_MIN.
HWY_INLINE VI high_mul(VI a, VI b) {
  const DI d;
  const auto nudge = hn::Set(DU64(), uint64_t{1} << 30);
  const auto even = hn::Add(product_of_even(a, b), nudge);
  const auto odd = hn::Add(product_of_even(odd_to_even(a), odd_to_even(b)), nudge);
  return hn::OddEven(hn::BitCast(d, hn::ShiftLeft<1>(odd)), hn::BitCast(d, hn::ShiftRight<31>(even)));
}

/// Loads values, less their zero point; `step` 0: one value for all.
template <class T>
HWY_INLINE VI load_wide(const T* from, int64_t step, int64_t n, VI zero) {
  const DI d;
  const auto widened = [&](const T* p) HWY_ATTR {
    if constexpr (sizeof(T) == 4)
      return hn::LoadU(d, p);
    else
      return hn::PromoteTo(d, hn::LoadU(hn::Rebind<T, DI>(), p));
  };
  if (step == 0) return hn::Sub(hn::Set(d, *from), zero);
  if (n == static_cast<int64_t>(hn::Lanes(d))) return hn::Sub(widened(from), zero);
  HWY_ALIGN T rest[HWY_MAX_BYTES] = {};
  std::memcpy(rest, from, static_cast<size_t>(n) * sizeof(T));
  return hn::Sub(widened(rest), zero);
}

template <class T>
HWY_INLINE void store_narrow(VI v, int64_t n, T* to) {
  const hn::Rebind<T, DI> dt;
  const auto narrowed = [&]() HWY_ATTR {
    if constexpr (sizeof(T) == 4)
      return v;
    else
      return hn::DemoteTo(dt, v);
  };
  const auto quantized = narrowed();
  if (n == static_cast<int64_t>(hn::Lanes(dt))) return hn::StoreU(quantized, dt, to);
  HWY_ALIGN T rest[HWY_MAX_BYTES];
  hn::Store(quantized, dt, rest);
  std::memcpy(to, rest, static_cast<size_t>(n) * sizeof(T));
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
