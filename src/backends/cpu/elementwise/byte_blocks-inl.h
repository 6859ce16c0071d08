// Sums of two byte operands, four vectors of 32-bit numbers at a time. Include after hwy/highway.h in files that
// are compiled once a target.
#if defined(SMELT_CPU_BYTE_BLOCKS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_BYTE_BLOCKS_INL_H
#undef SMELT_CPU_BYTE_BLOCKS_INL_H
#else
#define SMELT_CPU_BYTE_BLOCKS_INL_H
#endif

#include <hwy/cache_control.h>

#include <cstdint>

#include "backends/cpu/core/pairs-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/elementwise/byte_sum.h"

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

#if HWY_ARCH_ARM_A64
/// Bytes of two operands, as many as there are int32s in a vector.
struct BytePairs {
  int16x4_t u, v;
  HWY_INLINE BlockV32 first() const { return BlockV32{vmovl_s16(u)}; }
  HWY_INLINE BlockV32 second() const { return BlockV32{vmovl_s16(v)}; }
};
/// Factors of both, of ByteSum.
struct PairFactors {
  int16_t of_u, of_v;
  explicit PairFactors(int32_t pair) : of_u(static_cast<int16_t>(pair)), of_v(static_cast<int16_t>(pair >> 16)) {}
  template <bool /*kVnni*/>
  HWY_INLINE BlockV32 add(BlockV32 sum, const BytePairs& p) const {
    return BlockV32{vmlal_n_s16(vmlal_n_s16(sum.raw, p.u, of_u), p.v, of_v)};
  }
};
/// In the order that narrow_bytes() undoes.
HWY_INLINE void pair_bytes(BlockV8 first, BlockV8 second, BytePairs (&to)[4]) {
  const auto widened = [](BlockV8 bytes, int16x4_t(&parts)[4]) HWY_ATTR {
    const int16x8_t low = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(bytes.raw))),
                    high = vreinterpretq_s16_u16(vmovl_high_u8(bytes.raw));
    parts[0] = vget_low_s16(low);
    parts[1] = vget_high_s16(low);
    parts[2] = vget_low_s16(high);
    parts[3] = vget_high_s16(high);
  };
  int16x4_t u[4], v[4];
  widened(first, u);
  widened(second, v);
  for (int k = 0; k < 4; ++k) to[k] = {u[k], v[k]};
}
#else
/// Bytes of two operands, side by side as int16s.
struct BytePairs {
  BlockV32 pairs;
  HWY_INLINE BlockV32 first() const { return hn::And(pairs, hn::Set(BlockD32(), 0xffff)); }
  HWY_INLINE BlockV32 second() const { return hn::ShiftRight<16>(pairs); }
};
/// Factors of both, of ByteSum.
struct PairFactors {
  VS pairs;
  explicit HWY_INLINE PairFactors(int32_t pair) : pairs(hn::BitCast(BlockD16(), hn::Set(BlockD32(), pair))) {}
  template <bool kVnni>
  HWY_INLINE BlockV32 add(BlockV32 sum, const BytePairs& p) const {
    return add_pairs<kVnni>(sum, hn::BitCast(BlockD16(), p.pairs), pairs);
  }
};
/// In the order that narrow_bytes() undoes.
HWY_INLINE void pair_bytes(BlockV8 first, BlockV8 second, BytePairs (&to)[4]) {
  const BlockD8 d8;
  const BlockD32 d32;
  const auto zero = hn::Zero(d8);
  const auto low = hn::InterleaveLower(d8, first, second), high = hn::InterleaveUpper(d8, first, second);
  to[0].pairs = hn::BitCast(d32, hn::InterleaveLower(d8, low, zero));
  to[1].pairs = hn::BitCast(d32, hn::InterleaveUpper(d8, low, zero));
  to[2].pairs = hn::BitCast(d32, hn::InterleaveLower(d8, high, zero));
  to[3].pairs = hn::BitCast(d32, hn::InterleaveUpper(d8, high, zero));
}
#endif

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

HWY_INLINE BlockV8 load_block(const ByteOperand& x, int64_t i) {
  const BlockD8 d8;
  const auto bytes = x.step ? hn::LoadU(d8, x.bytes + i) : hn::Set(d8, *x.bytes);
  return hn::Xor(bytes, hn::Set(d8, x.flip));
}
HWY_INLINE void store_block(const BlockV32 (&from)[4], const ByteResult& y, int64_t i) {
  const BlockD8 d8;
  const auto bytes = hn::Min(hn::Max(narrow_bytes(from), hn::Set(d8, y.low)), hn::Set(d8, y.high));
  hn::StoreU(hn::Xor(bytes, hn::Set(d8, y.flip)), d8, y.bytes + i);
}
/// The operands are often the last results of convolutions, which lie in an outer cache.
HWY_INLINE void prefetch_blocks(const ByteOperand& a, const ByteOperand& b, int64_t i) {
  constexpr int64_t kLine = 64, kAhead = 768;
  if (i % kLine != 0) return;
  hwy::Prefetch(a.bytes + (i + kAhead) * a.step);
  hwy::Prefetch(b.bytes + (i + kAhead) * b.step);
}

/// sum_byte_blocks() of a sum with guesses or without.
template <bool kVnni, bool kGuesses, class Exact>
HWY_INLINE int64_t sum_blocks(const ByteOperand& a, const ByteOperand& b, const ByteResult& y, int64_t n,
                              const ByteSum& sum, Exact&& exact) {
  const BlockD32 d32;
  const hn::RebindToUnsigned<BlockD32> du32;
  const auto block = static_cast<int64_t>(hn::Lanes(BlockD8()));
  const PairFactors high(sum.high), low(sum.low);
  const BlockV32 high_constant = hn::Set(d32, sum.high_constant), low_constant = hn::Set(d32, sum.low_constant),
                 doubtful = hn::Set(d32, sum.doubtful);
  int64_t i = 0;
  for (; i + block <= n; i += block) {
    prefetch_blocks(a, b, i);
    BytePairs pairs[4];
    BlockV32 out[4];
    pair_bytes(load_block(a, i), load_block(b, i), pairs);
    auto least = hn::Set(du32, ~0u);
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const BlockV32 below = hn::ShiftRight<ByteSum::kLowBits>(low.add<kVnni>(low_constant, pairs[k]));
      const BlockV32 t = high.add<kVnni>(hn::Add(below, high_constant), pairs[k]);
      if constexpr (kGuesses) least = hn::Min(least, hn::BitCast(du32, hn::And(t, doubtful)));
      out[k] = hn::ShiftRightSame(t, sum.shift);
    }
    if constexpr (kGuesses) {
      if (HWY_UNLIKELY(!hn::AllFalse(du32, hn::Eq(least, hn::Zero(du32))))) {
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) out[k] = exact(pairs[k].first(), pairs[k].second());
      }
    }
    store_block(out, y, i);
  }
  return i;
}

/// The whole blocks of n bytes by `sum`, and by exact(a, b) where that has a guess in a block: a function of vectors of
/// int32. kVnni: as for add_pairs(). Returns the number of bytes done.
template <bool kVnni, class Exact>
HWY_INLINE int64_t sum_byte_blocks(const ByteOperand& a, const ByteOperand& b, const ByteResult& y, int64_t n,
                                   const ByteSum& sum, Exact&& exact) {
  return sum.doubtful ? sum_blocks<kVnni, true>(a, b, y, n, sum, exact)
                      : sum_blocks<kVnni, false>(a, b, y, n, sum, exact);
}
/// Of a sum without guesses.
template <bool kVnni>
HWY_INLINE int64_t sum_byte_blocks(const ByteOperand& a, const ByteOperand& b, const ByteResult& y, int64_t n,
                                   const ByteSum& sum) {
  return sum_blocks<kVnni, false>(a, b, y, n, sum, [](BlockV32 u, BlockV32 /*v*/) HWY_ATTR { return u; });
}
#else
/// No processor without vectors of bytes gains by blocks.
template <bool kVnni, class... Exact>
int64_t sum_byte_blocks(const ByteOperand&, const ByteOperand&, const ByteResult&, int64_t, const ByteSum&,
                        Exact&&...) {
  return 0;
}
#endif

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
