// Four vectors of int32 as one of bytes. Include after hwy/highway.h in files that are compiled once a target.
#if defined(SMELT_CPU_NARROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_NARROW_INL_H
#undef SMELT_CPU_NARROW_INL_H
#else
#define SMELT_CPU_NARROW_INL_H
#endif

#include <hwy/highway.h>

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_AVX3
/// Four vectors as int8 or uint8, saturated, one behind the other.
template <bool kSigned>
HWY_INLINE __m512i narrow_four(hn::Vec<hn::ScalableTag<int32_t>> a, hn::Vec<hn::ScalableTag<int32_t>> b,
                               hn::Vec<hn::ScalableTag<int32_t>> c, hn::Vec<hn::ScalableTag<int32_t>> d) {
  const __m512i low = _mm512_packs_epi32(a.raw, b.raw), high = _mm512_packs_epi32(c.raw, d.raw);
  const __m512i packed = kSigned ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  // Each 128-bit lane holds four bytes of every vector.
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return _mm512_permutexvar_epi32(order, packed);
}
#else
/// Four vectors as int8 or uint8, saturated, one behind the other.
template <bool kSigned>
HWY_INLINE __m256i narrow_four(hn::Vec<hn::ScalableTag<int32_t>> a, hn::Vec<hn::ScalableTag<int32_t>> b,
                               hn::Vec<hn::ScalableTag<int32_t>> c, hn::Vec<hn::ScalableTag<int32_t>> d) {
  const __m256i low = _mm256_packs_epi32(a.raw, b.raw), high = _mm256_packs_epi32(c.raw, d.raw);
  const __m256i packed = kSigned ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
  return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}
#endif

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif
