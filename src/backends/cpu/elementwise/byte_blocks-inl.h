// Functions of two byte operands, four vectors of 32-bit numbers at a time. Include after hwy/highway.h in files that
// are compiled once a target.
#if defined(SMELT_CPU_BYTE_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_BYTE_BLOCKS_INL_H
#undef SMELT_CPU_BYTE_BLOCKS_INL_H
#else
#define SMELT_CPU_BYTE_BLOCKS_INL_H
#endif

#include <hwy/cache_control.h>

#include <cstdint>

#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Bytes that are read as uint8: `flip` is 128 for int8, else 0.
struct ByteOperand {
  const uint8_t* bytes;
  int64_t step;  ///< 0: one byte for all; else 1
  uint8_t flip;
};
/// Bytes that are written: `flip` is 128 for int8, else 0. `low` and `high` bound them before that, as uint8.
struct ByteResult {
  uint8_t* bytes;
  uint8_t flip, low, high;
};

#if HWY_ARCH_X86 || HWY_ARCH_ARM_A64
using BlockD8 = hn::ScalableTag<uint8_t>;
using BlockD16 = hn::ScalableTag<int16_t>;
using BlockD32 = hn::ScalableTag<int32_t>;
using BlockV8 = hn::Vec<BlockD8>;
using BlockV32 = hn::Vec<BlockD32>;

/// The bytes as four vectors, in the order that narrow_bytes() undoes.
HWY_INLINE void widen_bytes(BlockV8 bytes, BlockV32 (&to)[4]) {
  const BlockD8 d8;
  const BlockD16 d16;
  const BlockD32 d32;
  const auto zero = hn::Zero(d8);
  const auto low = hn::BitCast(d16, hn::InterleaveLower(d8, bytes, zero));
  const auto high = hn::BitCast(d16, hn::InterleaveUpper(d8, bytes, zero));
  const auto zeros = hn::Zero(d16);
  to[0] = hn::BitCast(d32, hn::InterleaveLower(d16, low, zeros));
  to[1] = hn::BitCast(d32, hn::InterleaveUpper(d16, low, zeros));
  to[2] = hn::BitCast(d32, hn::InterleaveLower(d16, high, zeros));
  to[3] = hn::BitCast(d32, hn::InterleaveUpper(d16, high, zeros));
}

/// The numbers as uint8, saturated.
HWY_INLINE BlockV8 narrow_bytes(const BlockV32 (&from)[4]) {
  const BlockD16 d16;
  const auto low = hn::ReorderDemote2To(d16, from[0], from[1]), high = hn::ReorderDemote2To(d16, from[2], from[3]);
#if HWY_ARCH_ARM_A64
  return BlockV8{vcombine_u8(vqmovun_s16(low.raw), vqmovun_s16(high.raw))};
#elif HWY_TARGET == HWY_AVX3
  return BlockV8{_mm512_packus_epi16(low.raw, high.raw)};
#elif HWY_TARGET == HWY_AVX2
  return BlockV8{_mm256_packus_epi16(low.raw, high.raw)};
#else
  return BlockV8{_mm_packus_epi16(low.raw, high.raw)};
#endif
}

/// y = nearest(near(a, b)) for the whole blocks of n bytes, by exact(a, b) where a number of a block is not nearer than
/// `sure` to an integer. Both functions take vectors of int32; near() gives float32, exact() int32. Returns the number
/// of bytes done.
template <class Near, class Exact>
HWY_INLINE int64_t near_byte_blocks(const ByteOperand& a, const ByteOperand& b, const ByteResult& y, int64_t n,
                                    float sure, Near&& near, Exact&& exact) {
  // The operands are often the last results of convolutions, which lie in an outer cache.
  constexpr int64_t kLine = 64, kAhead = 768;
  const BlockD8 d8;
  const hn::ScalableTag<float> df;
  const auto block = static_cast<int64_t>(hn::Lanes(d8));
  const auto load = [&](const ByteOperand& x, int64_t i) HWY_ATTR {
    const auto bytes = x.step ? hn::LoadU(d8, x.bytes + i) : hn::Set(d8, *x.bytes);
    return hn::Xor(bytes, hn::Set(d8, x.flip));
  };
  int64_t i = 0;
  for (; i + block <= n; i += block) {
    if (i % kLine == 0) {
      hwy::Prefetch(a.bytes + (i + kAhead) * a.step);
      hwy::Prefetch(b.bytes + (i + kAhead) * b.step);
    }
    BlockV32 u[4], v[4], out[4];
    widen_bytes(load(a, i), u);
    widen_bytes(load(b, i), v);
    auto off = hn::Zero(df);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const auto real = near(u[k], v[k]);
      out[k] = nearest_in_range(real);
      off = hn::Max(off, hn::Abs(hn::Sub(real, hn::ConvertTo(df, out[k]))));
    }
    if (HWY_UNLIKELY(!hn::AllTrue(df, hn::Lt(off, hn::Set(df, sure))))) {
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) out[k] = exact(u[k], v[k]);
    }
    const auto bytes = hn::Min(hn::Max(narrow_bytes(out), hn::Set(d8, y.low)), hn::Set(d8, y.high));
    hn::StoreU(hn::Xor(bytes, hn::Set(d8, y.flip)), d8, y.bytes + i);
  }
  return i;
}
#else
/// No processor without vectors of bytes gains by blocks.
template <class Near, class Exact>
int64_t near_byte_blocks(const ByteOperand&, const ByteOperand&, const ByteResult&, int64_t, float, Near&&, Exact&&) {
  return 0;
}
#endif

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
