// The product of one row with several panels of two vectors of columns. Include after hwy/highway.h in files that are
// compiled once a target.
#if defined(SMELT_CPU_GEMM_ROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SMELT_CPU_GEMM_ROW_INL_H
#undef SMELT_CPU_GEMM_ROW_INL_H
#else
#define SMELT_CPU_GEMM_ROW_INL_H
#endif

#include <cstddef>

#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/gemm/gemm_f32.h"
#include "backends/cpu/gemm/half_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// A row times kPanels whole panels, `panel_step` floats from each other. The hardware follows each panel on its own,
/// so that several side by side keep more of memory on its way. Sums have the order of gemm_tile<1, 2, kSplit>.
template <int kPanels, int kSplit, class Words>
void gemm_row(const GemmChunk& chunk, const float* a, float* HWY_RESTRICT c, const float* row_bias,
              ptrdiff_t panel_step) {
  using D = hn::ScalableTag<float>;
  using V = hn::Vec<D>;
  const D d;
  constexpr ptrdiff_t L = HWY_MAX_BYTES / 4;
  V acc[kSplit][kPanels][2];
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      acc[0][p][j] = row_bias ? hn::Set(d, *row_bias) : hn::Load(d, chunk.start + p * panel_step + j * L);
#pragma GCC unroll 4
      for (int s = 1; s < kSplit; ++s) acc[s][p][j] = hn::Zero(d);
    }
  const float* HWY_RESTRICT b = chunk.b;
  const auto step = [&](int s, int at) HWY_ATTR {
    const V av = hn::Set(d, a[at]);
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j)
        acc[s][p][j] = Words::multiply_add(av, hn::Load(d, b + p * panel_step + (at * 2 + j) * L), acc[s][p][j]);
  };
  ptrdiff_t i = chunk.runs.length;
  for (; i >= kSplit; i -= kSplit, a += kSplit, b += kSplit * 2 * L) {
#pragma GCC unroll 4
    for (int s = 0; s < kSplit; ++s) step(s, s);
    if (chunk.ahead_step != 0)
#pragma GCC unroll 4
      for (int p = 0; p < kPanels; ++p) read_ahead<kSplit * 2>(b + p * panel_step);
  }
  for (; i > 0; --i, ++a, b += 2 * L) step(0, 0);
  const V lo = hn::Set(d, chunk.lo), hi = hn::Set(d, chunk.hi);
#pragma GCC unroll 4
  for (int p = 0; p < kPanels; ++p)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
#pragma GCC unroll 4
      for (int s = 1; s < kSplit; ++s) acc[0][p][j] = hn::Add(acc[0][p][j], acc[s][p][j]);
      hn::StoreU(clamp(acc[0][p][j], lo, hi), d, c + (p * 2 + j) * L);
    }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
