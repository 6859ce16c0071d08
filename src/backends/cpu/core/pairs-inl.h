// Products of 16-bit numbers, added in pairs. Include after hwy/highway.h in files that are compiled once a target.
#if defined(SMELT_CPU_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_PAIRS_INL_H
#undef SMELT_CPU_PAIRS_INL_H
#else
#define SMELT_CPU_PAIRS_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using DI = hn::ScalableTag<int32_t>;
using DS = hn::ScalableTag<int16_t>;
using VI = hn::Vec<DI>;
using VS = hn::Vec<DS>;

/// sum[i] + a[2i] * b[2i] + a[2i+1] * b[2i+1], exact. kVnni: the processor has AVX-512 VNNI.
template <bool kVnni = false>
HWY_INLINE VI add_pairs(VI sum, VS a, VS b) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kVnni) {  // not in this target's attributes, but in the kVnni level's processors
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "vm"(b.raw));
    return sum;
  }
  return VI{_mm512_add_epi32(sum.raw, _mm512_madd_epi16(a.raw, b.raw))};
#elif HWY_TARGET == HWY_AVX2
  return VI{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(a.raw, b.raw))};
#elif HWY_TARGET == HWY_SSE4
  return VI{_mm_add_epi32(sum.raw, _mm_madd_epi16(a.raw, b.raw))};
#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
  const int32x4_t low = vmull_s16(vget_low_s16(a.raw), vget_low_s16(b.raw)), high = vmull_high_s16(a.raw, b.raw);
  return VI{vaddq_s32(sum.raw, vpaddq_s32(low, high))};
#else
  const DI d;
  const VI ai = hn::BitCast(d, a), bi = hn::BitCast(d, b);
  const VI even = hn::Mul(hn::ShiftRight<16>(hn::ShiftLeft<16>(ai)), hn::ShiftRight<16>(hn::ShiftLeft<16>(bi)));
  return hn::Add(sum, hn::Add(even, hn::Mul(hn::ShiftRight<16>(ai), hn::ShiftRight<16>(bi))));
#endif
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
