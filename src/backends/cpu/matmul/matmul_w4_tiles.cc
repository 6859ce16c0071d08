// Tiles of products with 4-bit weights.
#include <algorithm>
#include <cstring>

#include "backends/cpu/core/prefetch.h"
#include "backends/cpu/core/targets.h"
#include "backends/cpu/matmul/matmul_w4.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/matmul_w4_tiles.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::ScalableTag<int32_t>;
using D8 = hn::ScalableTag<uint8_t>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using V8 = hn::Vec<D8>;
constexpr ptrdiff_t kLanes = HWY_MAX_BYTES / 4;

#if HWY_TARGET == HWY_AVX3
constexpr int kRealRows = 4, kPanels = 4;
#elif HWY_ARCH_ARM_A64
constexpr int kRealRows = 4, kPanels = 2;
#else
constexpr int kRealRows = 2, kPanels = 2;
#endif

/// Offset of panel j of a tile in bytes.
HWY_INLINE ptrdiff_t panel_at(const W4Tile& t, int64_t j) {
  return j / W4Gemm::kGroup * t.group_bytes + j % W4Gemm::kGroup * kLanes * 4;
}

/// Fetches what a tile of one row reads this far behind `at`: such a tile waits for memory, and the processor itself
/// looks less far ahead. What lies behind the last panel is often the next matrix.
template <bool kFetches>
HWY_INLINE void fetch_ahead([[maybe_unused]] const char* at) {
  constexpr ptrdiff_t kAhead = 8192;
  if constexpr (kFetches) __builtin_prefetch(at + kAhead);
}

/// Four bytes of a, repeated.
HWY_INLINE V8 spread(const int8_t* from) {
  int32_t group;
  std::memcpy(&group, from, 4);
  return hn::BitCast(D8(), hn::Set(DI(), group));
}

// Accumulators of products of int8 entries of a with weights of at most 15, or with any bytes (kTakesBytes), four at a
// time: partial ones, with workspace for kMost products each, that gather() brings to 32 bits. Values in arrays, which
// the compiler keeps in registers. kRows: of the largest tile.

#if HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
/// Dot products are not in these targets' attributes, but in the processors of the levels kVnni and kDot.
struct DirectSums {
  static constexpr int kRows = HWY_ARCH_X86 ? 5 : 4;
  static constexpr int kMost = 1 << 20;
  static constexpr bool kTakesBytes = HWY_ARCH_X86;
  using Partial = VI;
  static HWY_INLINE Partial start(VI from) { return from; }
  static HWY_INLINE Partial add(Partial sum, V8 w, V8 a) {
#if HWY_ARCH_X86
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(w.raw), "v"(a.raw));
#else
    asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(sum.raw) : "w"(w.raw), "w"(a.raw));
#endif
    return sum;
  }
  static HWY_INLINE VI gather(VI, Partial partial) { return partial; }
  static HWY_INLINE Partial restart(Partial partial) { return partial; }
};
#endif

#if HWY_ARCH_X86
/// Pairs in 16 bits: 2 * 15 * 128 each.
struct BlockSums {
  static constexpr int kRows = HWY_TARGET == HWY_AVX3 ? 3 : 2;
  static constexpr int kMost = 8;
  static constexpr bool kTakesBytes = false;
  using Partial = hn::Vec<hn::ScalableTag<int16_t>>;
  static HWY_INLINE Partial start(VI) { return hn::Zero(hn::ScalableTag<int16_t>()); }
#if HWY_TARGET == HWY_AVX3
  static HWY_INLINE Partial add(Partial sum, V8 w, V8 a) {
    return Partial{_mm512_add_epi16(sum.raw, _mm512_maddubs_epi16(w.raw, a.raw))};
  }
  static HWY_INLINE VI gather(VI sum, Partial partial) {
    return VI{_mm512_add_epi32(sum.raw, _mm512_madd_epi16(partial.raw, _mm512_set1_epi16(1)))};
  }
#elif HWY_TARGET == HWY_AVX2
  static HWY_INLINE Partial add(Partial sum, V8 w, V8 a) {
    return Partial{_mm256_add_epi16(sum.raw, _mm256_maddubs_epi16(w.raw, a.raw))};
  }
  static HWY_INLINE VI gather(VI sum, Partial partial) {
    return VI{_mm256_add_epi32(sum.raw, _mm256_madd_epi16(partial.raw, _mm256_set1_epi16(1)))};
  }
#else
  static HWY_INLINE Partial add(Partial sum, V8 w, V8 a) {
    return Partial{_mm_add_epi16(sum.raw, _mm_maddubs_epi16(w.raw, a.raw))};
  }
  static HWY_INLINE VI gather(VI sum, Partial partial) {
    return VI{_mm_add_epi32(sum.raw, _mm_madd_epi16(partial.raw, _mm_set1_epi16(1)))};
  }
#endif
  static HWY_INLINE Partial restart(Partial) { return start(VI()); }
};
#elif HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64
/// Products in 16 bits: 15 * 128 each.
struct BlockSums {
  static constexpr int kRows = 4;
  static constexpr int kMost = 16;
  static constexpr bool kTakesBytes = false;
  struct Partial {
    int16x8_t low, high;
  };
  static HWY_INLINE Partial start(VI) { return {vdupq_n_s16(0), vdupq_n_s16(0)}; }
  static HWY_INLINE Partial add(Partial sum, V8 w, V8 a) {
    const int8x16_t ws = vreinterpretq_s8_u8(w.raw), as = vreinterpretq_s8_u8(a.raw);
    return {vmlal_s8(sum.low, vget_low_s8(ws), vget_low_s8(as)), vmlal_high_s8(sum.high, ws, as)};
  }
  static HWY_INLINE VI gather(VI sum, Partial partial) {
    return VI{vaddq_s32(sum.raw, vpaddq_s32(vpaddlq_s16(partial.low), vpaddlq_s16(partial.high)))};
  }
  static HWY_INLINE Partial restart(Partial) { return start(VI()); }
};
#else
/// Any processor: byte by byte of the groups.
struct BlockSums {
  static constexpr int kRows = 2;
  static constexpr int kMost = 1 << 20;
  static constexpr bool kTakesBytes = false;
  using Partial = VI;
  static HWY_INLINE Partial start(VI from) { return from; }
  template <int kByte>
  static HWY_INLINE VI byte_of(V8 v) {
    return hn::ShiftRight<24>(hn::ShiftLeft<24 - 8 * kByte>(hn::BitCast(DI(), v)));
  }
  static HWY_INLINE Partial add(Partial sum, V8 w, V8 a) {
    sum = hn::Add(sum, hn::Mul(byte_of<0>(w), byte_of<0>(a)));
    sum = hn::Add(sum, hn::Mul(byte_of<1>(w), byte_of<1>(a)));
    sum = hn::Add(sum, hn::Mul(byte_of<2>(w), byte_of<2>(a)));
    return hn::Add(sum, hn::Mul(byte_of<3>(w), byte_of<3>(a)));
  }
  static HWY_INLINE VI gather(VI, Partial partial) { return partial; }
  static HWY_INLINE Partial restart(Partial partial) { return partial; }
};
#endif

template <class Accumulators, int MR, int NV, bool kFetches = MR == 1>
void int_tile(const W4Tile& t) {
  const D d;
  const DI di;
  const D8 d8;
  const hn::Rebind<int16_t, DI> d16;
  const V8 low_half = hn::Set(d8, uint8_t{15});
  // Where few accumulators wait for one another, high halves go to accumulators of their own, in sixteenths.
  constexpr bool kApart = Accumulators::kTakesBytes && MR * NV < 8;
  const V8 high_half = hn::Set(d8, uint8_t{0xf0});
  V total[MR][NV];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) total[m][j] = hn::Zero(d);
  const auto* a = static_cast<const int8_t*>(t.a);
  const char* panel = t.panel;
  for (ptrdiff_t b = 0; b < t.blocks; ++b) {
    VI acc[MR][NV];
    typename Accumulators::Partial partial[MR][NV], high_partial[MR][NV];
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      const VI zero = t.zeros ? hn::PromoteTo(di, hn::LoadU(d16, t.zeros + (j * t.blocks + b) * kLanes)) : hn::Zero(di);
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        const VI less = hn::Set(di, t.less[m * t.blocks + b]);
        acc[m][j] = t.zeros ? hn::Mul(less, zero) : less;
        partial[m][j] = Accumulators::start(acc[m][j]);
        if constexpr (kApart) high_partial[m][j] = Accumulators::start(hn::Zero(di));
      }
    }
    const char* const scales = panel;
    panel += t.step_bytes;
    constexpr ptrdiff_t kMost = Accumulators::kMost / 2;
    for (ptrdiff_t left = b + 1 < t.blocks ? t.steps : t.last_steps; left > 0; left -= kMost) {
      const char* const end = panel + t.step_bytes * std::min(left, kMost);
      for (; panel < end; panel += t.step_bytes, a += W4Tile::kStep) {
        V8 low[NV], high[NV];
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          fetch_ahead<kFetches>(panel + panel_at(t, j));
          const V8 w = hn::Load(d8, reinterpret_cast<const uint8_t*>(panel + panel_at(t, j)));
          low[j] = hn::And(w, low_half);
          high[j] = kApart ? hn::And(w, high_half) : hn::ShiftRight<4>(w);
        }
#pragma GCC unroll 8
        for (int m = 0; m < MR; ++m) {
          const V8 first = spread(a + m * t.lda), second = spread(a + m * t.lda + 4);
#pragma GCC unroll 4
          for (int j = 0; j < NV; ++j) {
            partial[m][j] = Accumulators::add(partial[m][j], low[j], first);
            auto& of_high = kApart ? high_partial[m][j] : partial[m][j];
            of_high = Accumulators::add(of_high, high[j], second);
          }
        }
      }
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          acc[m][j] = Accumulators::gather(acc[m][j], partial[m][j]);
          partial[m][j] = Accumulators::restart(partial[m][j]);
        }
    }
    if constexpr (kApart) {
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) acc[m][j] = hn::Add(acc[m][j], hn::ShiftRight<4>(high_partial[m][j]));
    }
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      fetch_ahead<kFetches>(scales + panel_at(t, j));
      const V scale = hn::Load(d, reinterpret_cast<const float*>(scales + panel_at(t, j)));
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
        // A product and a sum, not both at once: every level rounds alike.
        const V by = t.row_scales ? hn::Mul(scale, hn::Set(d, t.row_scales[m * t.blocks + b])) : scale;
        total[m][j] = hn::Add(total[m][j], hn::Mul(hn::ConvertTo(d, acc[m][j]), by));
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) hn::StoreU(total[m][j], d, t.out + (m * NV + j) * kLanes);
}

/// Entry kAt of the groups of 8, less 8.
template <int kAt>
HWY_INLINE V centered(VI groups) {
  const D d;
  const VI at = hn::ShiftRight<kAt % 4 * 8 + kAt / 4 * 4>(groups);
#if HWY_TARGET == HWY_AVX3
  alignas(64) static constexpr float kValues[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};
  return V{_mm512_permutexvar_ps(at.raw, hn::Load(d, kValues).raw)};  // looks at 4 bits only
#else
  return hn::ConvertTo(d, hn::Sub(hn::And(at, hn::Set(DI(), 15)), hn::Set(DI(), 8)));
#endif
}

/// body(entry as an integral constant) for the 8 of a group.
template <class F>
HWY_INLINE void each_entry(F&& body) {
  body(std::integral_constant<int, 0>());
  body(std::integral_constant<int, 1>());
  body(std::integral_constant<int, 2>());
  body(std::integral_constant<int, 3>());
  body(std::integral_constant<int, 4>());
  body(std::integral_constant<int, 5>());
  body(std::integral_constant<int, 6>());
  body(std::integral_constant<int, 7>());
}

/// The zero points of a block of panel j, less 8.
HWY_INLINE V centered_zeros(const W4Tile& t, int64_t j, ptrdiff_t b) {
  const DI di;
  const VI zero = hn::PromoteTo(di, hn::LoadU(hn::Rebind<int16_t, DI>(), t.zeros + (j * t.blocks + b) * kLanes));
  return hn::ConvertTo(D(), hn::Sub(zero, hn::Set(di, 8)));
}

template <int MR, int NV>
void real_tile(const W4Tile& t) {
  const D d;
  const DI di;
  constexpr int kSplit = MR * NV >= 8 ? 1 : MR * NV >= 4 ? 2 : 4;  // accumulators in flight hide the latency of FMA
  V total[MR][NV];
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) total[m][j] = hn::Zero(d);
  const auto* a = static_cast<const float*>(t.a);
  const char* panel = t.panel;
  for (ptrdiff_t b = 0; b < t.blocks; ++b) {
    V acc[kSplit][MR][NV];
#pragma GCC unroll 8
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        acc[0][m][j] =
            t.zeros ? hn::Neg(hn::Mul(centered_zeros(t, j, b), hn::Set(d, t.real_acc[m * t.blocks + b]))) : hn::Zero(d);
#pragma GCC unroll 4
        for (int s = 1; s < kSplit; ++s) acc[s][m][j] = hn::Zero(d);
      }
    const char* const scales = panel;
    panel += t.step_bytes;
    const char* const end = panel + t.step_bytes * (b + 1 < t.blocks ? t.steps : t.last_steps);
    for (; panel < end; panel += t.step_bytes, a += W4Tile::kStep) {
      VI groups[NV];
#pragma GCC unroll 4
      for (int j = 0; j < NV; ++j) {
        fetch_ahead<MR == 1>(panel + panel_at(t, j));
        groups[j] = hn::Load(di, reinterpret_cast<const int32_t*>(panel + panel_at(t, j)));
      }
      each_entry([&](auto entry) HWY_ATTR {
        constexpr int kAt = decltype(entry)::value;
#pragma GCC unroll 4
        for (int j = 0; j < NV; ++j) {
          const V w = centered<kAt>(groups[j]);
#pragma GCC unroll 8
          for (int m = 0; m < MR; ++m)
            acc[kAt % kSplit][m][j] = hn::MulAdd(hn::Set(d, a[m * t.lda + kAt]), w, acc[kAt % kSplit][m][j]);
        }
      });
    }
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) {
      fetch_ahead<MR == 1>(scales + panel_at(t, j));
      const V scale = hn::Load(d, reinterpret_cast<const float*>(scales + panel_at(t, j)));
#pragma GCC unroll 8
      for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 4
        for (int s = 1; s < kSplit; ++s) acc[0][m][j] = hn::Add(acc[0][m][j], acc[s][m][j]);
        total[m][j] = hn::MulAdd(acc[0][m][j], scale, total[m][j]);
      }
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < MR; ++m)
#pragma GCC unroll 4
    for (int j = 0; j < NV; ++j) hn::StoreU(total[m][j], d, t.out + (m * NV + j) * kLanes);
}

void unpack_panel(const W4Tile& t, int64_t k, float* rows, int64_t stride) {
  const D d;
  const char* panel = t.panel;
  int64_t left = k;
  for (ptrdiff_t b = 0; b < t.blocks; ++b) {
    const V scale = hn::Load(d, reinterpret_cast<const float*>(panel));
    const V zero = t.zeros ? centered_zeros(t, 0, b) : hn::Zero(d);
    panel += t.step_bytes;
    for (ptrdiff_t i = b + 1 < t.blocks ? t.steps : t.last_steps; i > 0; --i, panel += t.step_bytes) {
      const VI groups = hn::Load(DI(), reinterpret_cast<const int32_t*>(panel));
      each_entry([&](auto entry) HWY_ATTR {
        if (left-- <= 0) return;
        hn::StoreU(hn::Mul(hn::Sub(centered<decltype(entry)::value>(groups), zero), scale), d, rows);
        rows += stride;
      });
    }
  }
}

void store_rows(const W4Rows& by, const float* acc, float scale, float zero, int64_t n, float* y) {
  each_vector(n, [&](auto part, int64_t j) HWY_ATTR {
    const auto d = part.d;
    auto v = part.load(acc + j);
    if (by.zeros) v = hn::Sub(v, hn::Mul(hn::Set(d, zero), part.load(by.zeros + j)));
    v = hn::Mul(v, hn::Set(d, scale));
    if (by.bias) v = hn::Add(v, part.load(by.bias + j));
    part.store(clamp(v, hn::Set(d, by.low), hn::Set(d, by.high)), y + j);
  });
}

template <class Accumulators, int MR, int NV>
void fill_tiles(W4Gemm& g) {
  g.tiles[NV / 2 - 1][MR - 1] = int_tile<Accumulators, MR, NV>;
  if constexpr (MR > 1) fill_tiles<Accumulators, MR - 1, NV>(g);
}
template <int MR, int NV>
void fill_real_tiles(W4Gemm& g) {
  g.real_tiles[NV / 2 - 1][MR - 1] = real_tile<MR, NV>;
  if constexpr (MR > 1) fill_real_tiles<MR - 1, NV>(g);
}
/// Tiles of NV panels and fewer. More than kPanels: of one row alone.
template <class Accumulators, int NV>
void fill_widths(W4Gemm& g) {
  fill_tiles<Accumulators, NV <= kPanels ? Accumulators::kRows : 1, NV>(g);
  fill_real_tiles<NV <= kPanels ? kRealRows : 1, NV>(g);
  if constexpr (NV > 2) fill_widths<Accumulators, NV - 2>(g);
}

template <class Accumulators>
W4Gemm make_gemm() {
  W4Gemm g;
  g.lanes = kLanes;
  g.panels = kPanels;
  g.rows = Accumulators::kRows;
  g.real_rows = kRealRows;
  fill_widths<Accumulators, W4Gemm::kOneRowPanels>(g);
  g.store = store_rows;
  g.unpack = unpack_panel;
  return g;
}

W4Gemm make_unquantized() { return make_gemm<BlockSums>(); }
#if HWY_TARGET == HWY_AVX3 || (HWY_TARGET == HWY_NEON && HWY_ARCH_ARM_A64)
W4Gemm make_direct() {
  W4Gemm g = make_gemm<DirectSums>();
  constexpr int kWide = W4Gemm::kOneRowPanels;
  if (!streams_by_prefetch()) g.tiles[kWide / 2 - 1][0] = int_tile<DirectSums, 1, kWide, false>;
  return g;
}
#endif

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

const W4Gemm& w4_gemm(Isa isa) {
  return of_level(isa, [](Isa level) {
#if defined(__x86_64__)
    if (level.has(IsaFeature::kVnni)) return N_AVX3::make_direct();
#elif defined(__aarch64__)
    if (level.has(IsaFeature::kDot)) return HWY_NAMESPACE::make_direct();
#endif
    return SMELT_FOR_LEVEL(level, make_unquantized)();
  });
}

}  // namespace smelt
#endif
