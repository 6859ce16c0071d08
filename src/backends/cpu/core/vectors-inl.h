// Loops over rows of numbers in vectors of the target, the last one partial. Include after hwy/highway.h in files that
// are compiled once a target.
#if defined(SMELT_CPU_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_VECTORS_INL_H
#undef SMELT_CPU_VECTORS_INL_H
#else
#define SMELT_CPU_VECTORS_INL_H
#endif

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A vector whose lanes are all used.
template <class Tag>
struct WholeVector {
  using V = hn::Vec<Tag>;
  static constexpr bool kSingle = hn::MaxLanes(Tag()) == 1;
  Tag d;
  HWY_INLINE V load(const float* p) const { return hn::LoadU(d, p); }
  HWY_INLINE hn::Vec<hn::RebindToSigned<Tag>> load_ints(const int32_t* p) const {
    return hn::LoadU(hn::RebindToSigned<Tag>(), p);
  }
  HWY_INLINE void store(V v, float* p) const { hn::StoreU(v, d, p); }
  HWY_INLINE V rest_as(V v, V) const { return v; }
};

/// The first lanes of a vector: memory behind them is not touched.
template <class Tag>
struct PartVector {
  using V = hn::Vec<Tag>;
  static constexpr bool kSingle = false;
  Tag d;
  hn::Mask<Tag> mask;
  HWY_INLINE V load(const float* p) const { return hn::MaskedLoad(mask, d, p); }  // zero in the rest
  HWY_INLINE hn::Vec<hn::RebindToSigned<Tag>> load_ints(const int32_t* p) const {
    const hn::RebindToSigned<Tag> di;
    return hn::MaskedLoad(hn::RebindMask(di, mask), di, p);
  }
  HWY_INLINE void store(V v, float* p) const { hn::BlendedStore(v, mask, d, p); }
  HWY_INLINE V rest_as(V v, V other) const { return hn::IfThenElse(mask, v, other); }
};

#if defined(HWY_TARGET) && (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)
constexpr bool kMaskedLoads = true;  // they do not fault
#else
constexpr bool kMaskedLoads = false;
#endif

#if defined(HWY_TARGET) && HWY_TARGET == HWY_AVX3
/// Stores 16 floats as bfloat16, rounded to the nearest, ties to even. Precondition: the processor has AVX-512 BF16.
HWY_INLINE void store_bf16(hn::Vec<hn::ScalableTag<float>> v, void* to) {
  __m256i rounded;
  asm("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(v.raw));
  _mm256_storeu_si256(static_cast<__m256i*>(to), rounded);
}
#endif

/// The nearest integers, ties to even, of float32 values that fit 32 bits (others give anything).
template <class V>
HWY_INLINE auto nearest_in_range(V v) {
  using VI = decltype(hn::NearestInt(v));
#if HWY_ARCH_X86
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(v.raw) == 64) return VI{_mm512_cvtps_epi32(v.raw)};
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(v.raw) == 32) return VI{_mm256_cvtps_epi32(v.raw)};
#endif
  if constexpr (sizeof(v.raw) == 16) return VI{_mm_cvtps_epi32(v.raw)};
#else
  return VI(hn::NearestInt(v));
#endif
}
/// Converts to integers, rounding towards zero.
template <class V>
HWY_INLINE auto whole_in_range(V v) {
  using VI = decltype(hn::NearestInt(v));
#if HWY_ARCH_X86
#if HWY_TARGET == HWY_AVX3
  if constexpr (sizeof(v.raw) == 64) return VI{_mm512_cvttps_epi32(v.raw)};
#endif
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2
  if constexpr (sizeof(v.raw) == 32) return VI{_mm256_cvttps_epi32(v.raw)};
#endif
  if constexpr (sizeof(v.raw) == 16) return VI{_mm_cvttps_epi32(v.raw)};
#else
  return VI(hn::ConvertTo(hn::DFromV<VI>(), v));
#endif
}

/// Calls body(WholeVector or PartVector, i) for all of [0, n).
template <class F>
HWY_INLINE void each_vector(int64_t n, F&& body) {
  using D = hn::ScalableTag<float>;
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) body(WholeVector<D>{d}, i);
  if (i == n) return;
  if constexpr (kMaskedLoads) {
    body(PartVector<D>{d, hn::FirstN(d, static_cast<size_t>(n - i))}, i);
  } else {
    using One = hn::CappedTag<float, 1>;
    for (; i < n; ++i) body(WholeVector<One>{One()}, i);
  }
}

/// Calls f(tag, i) for whole vectors of T in [0, n), then for four numbers, then for one.
template <class T, class F>
HWY_INLINE void for_lanes(int64_t n, F&& f) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 4> four;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), few = static_cast<int64_t>(hn::Lanes(four));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) f(d, i);
  for (; i + few <= n; i += few) f(four, i);
  for (; i < n; ++i) f(hn::CappedTag<T, 1>(), i);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
