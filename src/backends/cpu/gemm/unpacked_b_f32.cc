#include "backends/cpu/gemm/unpacked_b_f32.h"

#include <algorithm>

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/targets.h"
#include "base/checked.h"
#include "base/mapped_file.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/gemm/unpacked_b_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// The sums of the lanes of each of four vectors.
HWY_INLINE hn::Vec<hn::CappedTag<float, 4>> sums_of_lanes(V a, V b, V c, V e) {
  const D d;
  const hn::Repartition<uint64_t, D> pairs;
  const auto within_blocks = [&](V x, V y) HWY_ATTR {  // x, y, x, y of each block
    return hn::Add(hn::InterleaveLower(d, x, y), hn::InterleaveUpper(d, x, y));
  };
  const auto ab = hn::BitCast(pairs, within_blocks(a, b)), ce = hn::BitCast(pairs, within_blocks(c, e));
  const V all =
      hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)), hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
#if HWY_MAX_BYTES >= 64
  const hn::Half<D> half;
  const auto sum = hn::Add(hn::LowerHalf(half, all), hn::UpperHalf(half, all));
#else
  const auto sum = all;
#endif
#if HWY_MAX_BYTES >= 32
  const hn::CappedTag<float, 4> block;
  return hn::Add(hn::LowerHalf(block, sum), hn::UpperHalf(block, sum));
#else
  return sum;
#endif
}

/// x times each of R columns of k elements, whole vectors. Sums have one order, whatever R.
template <int R>
HWY_INLINE void dot_columns(const float* HWY_RESTRICT columns, ptrdiff_t k, const float* HWY_RESTRICT x, float* sums) {
  const D d;
  const auto lanes = static_cast<ptrdiff_t>(hn::Lanes(d));
  V even[R], odd[R];  // sums of every other vector
  for (int r = 0; r < R; ++r) even[r] = odd[r] = hn::Zero(d);
  ptrdiff_t i = 0;
  for (; i + 2 * lanes <= k; i += 2 * lanes) {
    const V first = hn::LoadU(d, x + i), second = hn::LoadU(d, x + i + lanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      even[r] = hn::MulAdd(first, hn::LoadU(d, columns + r * k + i), even[r]);
      odd[r] = hn::MulAdd(second, hn::LoadU(d, columns + r * k + i + lanes), odd[r]);
    }
  }
  if (i < k) {
    const V last = hn::LoadU(d, x + i);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) even[r] = hn::MulAdd(last, hn::LoadU(d, columns + r * k + i), even[r]);
  }
  const hn::CappedTag<float, 4> block;
  const auto sum = [&](int r) HWY_ATTR { return hn::Add(even[r], odd[r]); };
  if constexpr (R == 1) {
    *sums = hn::GetLane(sums_of_lanes(sum(0), sum(0), sum(0), sum(0)));
  } else {
#pragma GCC unroll 2
    for (int r = 0; r < R; r += 4)
      hn::StoreU(sums_of_lanes(sum(r), sum(r + 1), sum(r + 2), sum(r + 3)), block, sums + r);
  }
}

void columns_times_vector(const float* columns, int64_t n, int64_t k, const float* x, const float* bias, float lo,
                          float hi, float* y) {
  constexpr int kTogether = HWY_MAX_BYTES >= 64 ? 8 : 4;
  int64_t j = 0;
  for (; j + kTogether <= n; j += kTogether) dot_columns<kTogether>(columns + j * k, k, x, y + j);
  for (; j < n; ++j) dot_columns<1>(columns + j * k, k, x, y + j);
  for (j = 0; j < n; ++j) y[j] = std::min(std::max(y[j] + (bias ? bias[j] : 0.0f), lo), hi);  // NaN stays
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

bool UnpackedBF32::suits(Isa isa, const std::byte* b, int64_t k, int64_t n) {
  static_assert(HWY_MAX_BYTES <= 64, "a line of k elements is whole vectors");
  constexpr int64_t kLine = 16, kShort = 64, kLeast = 32 * 1024, kMost = 4 * 1024 * 1024;  // floats
  constexpr int64_t kFloat = sizeof(float);
  if (isa.has(IsaFeature::kOneOrder) || k < kShort || k % kLine != 0 || k * n < kLeast || k * n > kMost) return false;
  return reinterpret_cast<uintptr_t>(b) % (kLine * kFloat) == 0 && is_mapped(b, static_cast<size_t>(k * n * kFloat));
}

UnpackedBF32::UnpackedBF32(Isa isa, int64_t k, int64_t n)
    : run_(SMELT_FOR_LEVEL(isa, columns_times_vector)), k_(k), n_(n) {}

void UnpackedBF32::run(ThreadPool& pool, const float* x, const float* columns, const float* bias, const Activation& act,
                       float* y, const EpilogueRun* epilogue) const {
  constexpr int64_t kGrain = 16 * 1024;  // floats
  const Bounds bounds = activation_bounds(act);
  pool.parallel_for(n_, ceil_div(kGrain, k_), [&](int64_t begin, int64_t end) {
    float* const part = y + begin;
    run_(columns + begin * k_, end - begin, k_, x, bias ? bias + begin : nullptr, bounds.lo, bounds.hi, part);
    apply_activation(act, part, 1, end - begin, end - begin);
    if (epilogue) (*epilogue)(part, 1, end - begin, n_);
  });
}

}  // namespace smelt
#endif
