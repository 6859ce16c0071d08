// Elementary functions of float32 vectors, errors about 2 units in the last place. Include after hwy/highway.h in files
// that are compiled once a target.
#if defined(SMELT_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_MATH_INL_H
#undef SMELT_CPU_MATH_INL_H
#else
#define SMELT_CPU_MATH_INL_H
#endif

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// NaN stays.
template <class V>
HWY_INLINE V clamp(V v, V lo, V hi) {
#if HWY_ARCH_X86
  return hn::Min(hi, hn::Max(lo, v));  // the second operand where one is NaN
#else
  v = hn::IfThenElse(hn::Lt(v, lo), lo, v);
  return hn::IfThenElse(hn::Gt(v, hi), hi, v);
#endif
}

/// v * 2^n for a whole n in [-150, 129], rounded once; v is about 1, or NaN, which stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V times_power_of_two(D d, V v, V n) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(v.raw) == 64)
    return V{_mm512_scalef_ps(v.raw, n.raw)};
  else if constexpr (sizeof(v.raw) == 32)
    return V{_mm256_scalef_ps(v.raw, n.raw)};
  else
    return V{_mm_scalef_ps(v.raw, n.raw)};
#else
  // In two steps, so that the ends of the range come out right.
  const hn::RebindToSigned<D> di;
  const auto ni = hn::ConvertTo(di, n);
  const auto half = hn::ShiftRight<1>(ni);
  const auto power = [&](auto e) HWY_ATTR { return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(e, hn::Set(di, 127)))); };
  return hn::Mul(hn::Mul(v, power(half)), power(hn::Sub(ni, half)));
#endif
}

constexpr float kLeastExponent = -87.33654f;  ///< e^x is the smallest normal number, or a few units above it

/// v, or zero where x < kLeastExponent. NaN stays.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V zero_below_least(D d, V x, V v) {
  const V least = hn::Set(d, kLeastExponent);
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(v.raw) == 64)
    return V{_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x.raw, least.raw, _CMP_NLT_UQ), v.raw)};
  else
#endif
    return hn::IfThenZeroElse(hn::Lt(x, least), v);
}

/// e^r for |r| <= ln 2 / 2 and a little more. Few steps follow one another.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_near_zero(D d, V r) {
  const V square = hn::Mul(r, r);
  const V low = hn::MulAdd(r, hn::Set(d, 1.66666672e-1f), hn::Set(d, 0.5f));
  const V middle = hn::MulAdd(r, hn::Set(d, 8.33328627e-3f), hn::Set(d, 4.1666463e-2f));
  const V high = hn::MulAdd(r, hn::Set(d, 1.99076181e-4f), hn::Set(d, 1.39336765e-3f));
  const V p = hn::MulAdd(hn::MulAdd(high, square, middle), square, low);
  return hn::Add(hn::MulAdd(p, square, r), hn::Set(d, 1.0f));
}

/// x - n ln 2.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V less_powers_of_two(D d, V x, V n) {
  return hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x));
}

/// e^x for |x| <= -kLeastExponent, the value at the nearer end beyond.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_bounded(D d, V x) {
  const V bounded = clamp(x, hn::Set(d, kLeastExponent), hn::Set(d, -kLeastExponent));
  const V exponent = hn::Mul(bounded, hn::Set(d, 1.44269504f));
#if HWY_TARGET == HWY_AVX3
  const V n = hn::Round(exponent);
  return times_power_of_two(d, exp_near_zero(d, less_powers_of_two(d, bounded, n)), n);
#else
  // The sum with 1.5 * 2^23 + 127 rounds to a whole number whose last bits are those of 2^n's exponent.
  const V shift = hn::Set(d, 12583039.0f);
  const V sum = hn::Add(exponent, shift);
  const V p = exp_near_zero(d, less_powers_of_two(d, bounded, hn::Sub(sum, shift)));
  const hn::RebindToUnsigned<D> du;
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(du, sum))));
#endif
}

/// e^x. Overflows to infinity. Zero where the result would be subnormal, which takes some processors a hundred cycles.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_f32(D d, V x) {
  const V bounded = clamp(x, hn::Set(d, kLeastExponent), hn::Set(d, 89.0f));
  const V n = hn::Round(hn::Mul(bounded, hn::Set(d, 1.44269504f)));
  return zero_below_least(d, x, times_power_of_two(d, exp_near_zero(d, less_powers_of_two(d, bounded, n)), n));
}

/// e^x for x <= 0. Zero where the result would be subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_nonpositive(D d, V x) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(x.raw) == 64) {  // no bounds: the mask drops what is below them
    const V n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
    const V p = exp_near_zero(d, less_powers_of_two(d, x, n));
    return V{
        _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x.raw, hn::Set(d, kLeastExponent).raw, _CMP_NLT_UQ), p.raw, n.raw)};
  }
#endif
  return zero_below_least(d, x, exp_bounded(d, x));
}

/// Zero where the result would be subnormal.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return zero_below_least(d, x, hn::Div(one, hn::Add(one, exp_bounded(d, hn::Neg(x)))));
}

/// (e^2x - 1) / (e^2x + 1), by a series near zero.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh_f32(D d, V x) {
  const V one = hn::Set(d, 1.0f), a = hn::Abs(x);
  const V e = exp_bounded(d, hn::Add(a, a));
  const V far = hn::Sub(one, hn::Div(hn::Set(d, 2.0f), hn::Add(e, one)));
  const V s = hn::Mul(x, x);
  V p = hn::Set(d, -5.71703678e-3f);
  p = hn::MulAdd(p, s, hn::Set(d, 2.06505787e-2f));
  p = hn::MulAdd(p, s, hn::Set(d, -5.37434965e-2f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.33314908e-1f));
  p = hn::MulAdd(p, s, hn::Set(d, -3.33332837e-1f));
  const V near = hn::MulAdd(hn::Mul(p, s), x, x);
  return hn::IfThenElse(hn::Lt(a, hn::Set(d, 0.625f)), near, hn::CopySign(far, x));
}

/// Error function: odd polynomial below 0.9277, 1 - e^polynomial above. Coefficients: weighted least squares on
/// Chebyshev nodes, iterated towards the smallest largest error.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V erf_f32(D d, V x) {
  const V a = hn::Abs(x), s = hn::Mul(x, x);
  V p = hn::Set(d, -5.97689359e-4f);
  p = hn::MulAdd(p, s, hn::Set(d, 4.99098003e-3f));
  p = hn::MulAdd(p, s, hn::Set(d, -2.67655663e-2f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.12818025e-1f));
  p = hn::MulAdd(p, s, hn::Set(d, -3.76124948e-1f));
  p = hn::MulAdd(p, s, hn::Set(d, 1.28379151e-1f));
  const V near = hn::MulAdd(p, x, x);
  // ln erfc(t) on [0.92, 4]; beyond, erf is 1 in float32.
  const V t = hn::Min(a, hn::Set(d, 4.0f));
  V q = hn::Set(d, -2.11619063e-5f);
  q = hn::MulAdd(q, t, hn::Set(d, 4.35218884e-4f));
  q = hn::MulAdd(q, t, hn::Set(d, -4.1746432e-3f));
  q = hn::MulAdd(q, t, hn::Set(d, 2.51286253e-2f));
  q = hn::MulAdd(q, t, hn::Set(d, -1.08293943e-1f));
  q = hn::MulAdd(q, t, hn::Set(d, -6.33334637e-1f));
  q = hn::MulAdd(q, t, hn::Set(d, -1.12952077f));
  q = hn::MulAdd(q, t, hn::Set(d, 1.75874564e-4f));
  const V one = hn::Set(d, 1.0f);
  const V far = hn::CopySign(hn::Sub(one, exp_bounded(d, q)), x);
  return hn::IfThenElse(hn::Gt(a, hn::Set(d, 0.9277f)), far, near);  // NaN takes the near branch
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
