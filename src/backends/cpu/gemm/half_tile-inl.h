// A tile of float32 products with a panel of one and a half vectors of columns. Include after hwy/highway.h in files
// that are compiled once a target.
#if defined(SMELT_CPU_HALF_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_HALF_TILE_INL_H
#undef SMELT_CPU_HALF_TILE_INL_H
#else
#define SMELT_CPU_HALF_TILE_INL_H
#endif

#include <algorithm>
#include <cstddef>

#include "backends/cpu/gemm/gemm_f32.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Tiles of less rows do not prefetch: they read b as fast as the hardware brings it.
constexpr int64_t kFewRows = 6;

/// Asks for two cache lines in the level-2 cache.
HWY_INLINE void prefetch_lines(const char* p) {
  __builtin_prefetch(p, 0, 2);
  __builtin_prefetch(p + 64, 0, 2);
}

/// Asks for `kLines` cache lines of a matrix that is read once, from b + 2 KiB on: by itself the hardware stops at each
/// page, and brings what lies beyond the level-2 cache less fast than memory allows.
template <int kLines>
HWY_INLINE void read_ahead(const float* b) {
#pragma GCC unroll 8
  for (int line = 0; line < kLines; ++line) __builtin_prefetch(b + 512 + line * 16);
}

#if HWY_MAX_BYTES >= 64
/// gemm_tile() of two vectors of columns whose second one is half empty: that of a row holds the columns of the next
/// row in its upper half.
template <int MR>
void gemm_half_tile(const GemmChunk& chunk, const float* a, float* HWY_RESTRICT c, const float* row_bias,
                    const char* ahead) {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  const hn::Half<D> dh;
  const GemmRuns runs = chunk.runs;
  const ptrdiff_t ldc = chunk.ldc, step = chunk.lda * 4, ahead_step = chunk.ahead_step;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4;
  constexpr int kGroups = (MR + 2) / 3, kPairs = (MR + 1) / 2;
  const auto rest = hn::FirstN(dh, static_cast<size_t>(chunk.n - L));
  // The second vectors of rows m and m + 1; of the last row twice.
  const auto pair_of = [&](auto&& half, int m)
                           HWY_ATTR { return hn::Combine(d, half(std::min(m + 1, MR - 1)), half(m)); };
  V acc[MR], last[kPairs];
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    acc[m] = row_bias ? hn::Set(d, row_bias[m]) : chunk.start ? hn::Load(d, chunk.start) : hn::LoadU(d, c + m * ldc);
    if (m % 2 != 0) continue;
    last[m / 2] = row_bias      ? pair_of([&](int r) HWY_ATTR { return hn::Set(dh, row_bias[r]); }, m)
                  : chunk.start ? pair_of([&](int) HWY_ATTR { return hn::Load(dh, chunk.start + L); }, m)
                                : pair_of([&](int r) HWY_ATTR { return hn::MaskedLoad(rest, dh, c + r * ldc + L); }, m);
  }
  const float* HWY_RESTRICT b = chunk.b;
  const char* rows[kGroups];
  const auto row_step = [&](int at) HWY_ATTR {
    const V first = hn::Load(d, b + at * 2 * L);
    const auto half = hn::Load(dh, b + at * 2 * L + L);
    const V second = hn::Combine(d, half, half);
    V even = first;
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      V av = hn::Set(d, *reinterpret_cast<const float*>(rows[m / 3] + step * (m % 3) + at * 4));
      asm("" : "+v"(av.raw));  // once from memory for both products
      acc[m] = hn::MulAdd(av, first, acc[m]);
      if (m % 2 == 0) even = av;
      if (m % 2 != 0 || m + 1 == MR) last[m / 2] = hn::MulAdd(hn::ConcatUpperLower(d, av, even), second, last[m / 2]);
    }
  };
  for (ptrdiff_t r = 0; r < runs.count; ++r) {
    if (runs.b_rows) b = chunk.b + runs.b_rows[r] * 2 * L;
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] = reinterpret_cast<const char*>(a + runs.at[r] + g * 3 * chunk.lda);
    ptrdiff_t i = runs.length;
    for (; i >= 2; i -= 2) {
      row_step(0);
      row_step(1);
      b += 4 * L;
      if constexpr (MR >= kFewRows) {
        prefetch_lines(ahead);
        ahead += ahead_step;
      }
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) rows[g] += 8;
    }
    if (i > 0) row_step(0);
    if (i > 0) b += 2 * L;
  }
  const V lo = hn::Set(d, chunk.lo), hi = hn::Set(d, chunk.hi);
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
    hn::StoreU(clamp(acc[m], lo, hi), d, c + m * ldc);
    if (m % 2 == 0) last[m / 2] = clamp(last[m / 2], lo, hi);
    hn::BlendedStore(m % 2 == 0 ? hn::LowerHalf(dh, last[m / 2]) : hn::UpperHalf(dh, last[m / 2]), rest, dh,
                     c + m * ldc + L);
  }
}
#endif

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
