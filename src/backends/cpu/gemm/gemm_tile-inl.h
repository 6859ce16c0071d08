// A tile of products with a panel of one or two vectors of columns. Include after hwy/highway.h in files that are
// compiled once a target.
#if defined(SMELT_CPU_GEMM_TILE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_GEMM_TILE_INL_H
#undef SMELT_CPU_GEMM_TILE_INL_H
#else
#define SMELT_CPU_GEMM_TILE_INL_H
#endif

#include <algorithm>
#include <cstddef>

#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "backends/cpu/gemm/half_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// The first n elements, zero in the rest; memory behind them is not touched.
template <class Tag>
HWY_INLINE hn::Vec<Tag> load_first(Tag d, const float* p, ptrdiff_t n) {
  if constexpr (kMaskedLoads)
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(std::max<ptrdiff_t>(n, 0))), d, p);
  if (n <= 0) return hn::Zero(d);
  HWY_ALIGN float part[HWY_MAX_BYTES / 4] = {};
  std::copy_n(p, std::min<ptrdiff_t>(n, HWY_MAX_BYTES / 4), part);
  return hn::Load(d, part);
}

/// Steps of K in which a tile's results arrive in the nearest cache; shorter tiles do not ask for them.
constexpr ptrdiff_t kStepsToFetchResults = 64;

/// Rows are addressed in threes from one pointer (0, 1 and 2 times lda), which keeps the pointers in registers.
/// kSplit: accumulators in flight, which hide the latency of FMA. Tag: of vectors that hold the columns which are used
/// of each whole vector of the panel.
template <int MR, int NV, int kSplit, class Words, class Tag = hn::ScalableTag<float>>
void gemm_tile(const GemmChunk& chunk, const float* a, float* HWY_RESTRICT c, const float* row_bias,
               [[maybe_unused]] const char* ahead) {
  using V = hn::Vec<Tag>;
  const Tag d;
  const GemmRuns runs = chunk.runs;
  const ptrdiff_t lda = chunk.lda, ldc = chunk.ldc, n = chunk.n;
  const float* HWY_RESTRICT b = chunk.b;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4, kUsed = hn::MaxLanes(d);
  static_assert(NV == 1 || kUsed == L);
  constexpr int kGroups = (MR + 2) / 3;
  if (MR >= kFewRows && runs.count * runs.length >= kStepsToFetchResults) {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) __builtin_prefetch(c + m * ldc + j * L, 1, 3);
  }
  V acc[kSplit][MR][NV];
  const auto begin_with = [&](auto first) HWY_ATTR {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) {
        acc[0][m][j] = first(m, j);
#pragma GCC unroll 4
        for (int s = 1; s < kSplit; ++s) acc[s][m][j] = hn::Zero(d);
      }
  };
  if (row_bias)
    begin_with([&](int m, int) HWY_ATTR { return hn::Set(d, row_bias[m]); });
  else if (const float* const start = chunk.start)
    begin_with([&](int, int j) HWY_ATTR { return hn::LoadU(d, start + j * L); });
  else if (n >= NV * kUsed)
    begin_with([&](int m, int j) HWY_ATTR { return hn::LoadU(d, c + m * ldc + j * L); });
  else
    begin_with([&](int m, int j) HWY_ATTR { return load_first(d, c + m * ldc + j * L, n - j * L); });
  [[maybe_unused]] const ptrdiff_t ahead_step = chunk.ahead_step;
  const char* rows[kGroups];
  const ptrdiff_t step = lda * 4;
  const auto row_step = [&](int s, int at) HWY_ATTR {
    V bv[NV];
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) bv[j] = hn::Load(d, b + (at * NV + j) * L);
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) {
      const V av = hn::Set(d, *reinterpret_cast<const float*>(rows[m / 3] + step * (m % 3) + at * 4));
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) acc[s][m][j] = Words::multiply_add(av, bv[j], acc[s][m][j]);
    }
  };
  constexpr int kUnroll = kUsed < L ? 1 : kSplit > 2 ? kSplit : 2;  // little code where nothing is prefetched
  for (ptrdiff_t r = 0; r < runs.count; ++r) {
    if (runs.b_rows) b = chunk.b + runs.b_rows[r] * NV * L;
#pragma GCC unroll 5
    for (int g = 0; g < kGroups; ++g) rows[g] = reinterpret_cast<const char*>(a + runs.at[r] + g * 3 * lda);
    ptrdiff_t i = runs.length;
    for (; i >= kUnroll; i -= kUnroll) {
#pragma GCC unroll 4
      for (int u = 0; u < kUnroll; ++u) row_step(u % kSplit, u);
      if constexpr (MR == 1 && NV == 2 && HWY_MAX_BYTES >= 64)
        if (ahead_step != 0) read_ahead<kUnroll * NV>(b);
      b += kUnroll * NV * L;
      if constexpr (MR >= kFewRows && kUsed == L) {
        prefetch_lines(ahead);
        ahead += ahead_step;
      }
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) rows[g] += kUnroll * 4;
    }
    for (; kUnroll > 1 && i > 0; --i) {
      row_step(0, 0);
      b += NV * L;
#pragma GCC unroll 5
      for (int g = 0; g < kGroups; ++g) rows[g] += 4;
    }
  }
  const V vlo = hn::Set(d, chunk.lo), vhi = hn::Set(d, chunk.hi);
#pragma GCC unroll 16
  for (int m = 0; m < MR; ++m) {
#pragma GCC unroll 2
    for (int j = 0; j < NV; ++j) {
#pragma GCC unroll 4
      for (int s = 1; s < kSplit; ++s) acc[0][m][j] = hn::Add(acc[0][m][j], acc[s][m][j]);
      acc[0][m][j] = clamp(acc[0][m][j], vlo, vhi);
    }
  }
  if (n >= NV * kUsed) {
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m)
#pragma GCC unroll 2
      for (int j = 0; j < NV; ++j) hn::StoreU(acc[0][m][j], d, c + m * ldc + j * L);
    return;
  }
#pragma GCC unroll 2
  for (int j = 0; j < NV; ++j) {
    if (n <= j * L) return;
    const auto columns = hn::FirstN(d, static_cast<size_t>(n - j * L));
#pragma GCC unroll 16
    for (int m = 0; m < MR; ++m) hn::BlendedStore(acc[0][m][j], columns, d, c + m * ldc + j * L);
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
