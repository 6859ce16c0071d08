#include "backends/cpu/matmul/matmul_row_f16.h"

#include <utility>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/matmul/matmul_row_f16.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "ops/common/activated.h"
#include "ops/matmul/matmul_shape.h"
#include "tensor/pages.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[c * apart] = x times column c * apart of w for c < kColumns. k: a multiple of 8.
template <int kColumns>
HWY_INLINE void dot_columns(const float* x, const hwy::float16_t* w, int64_t k, int64_t apart, float* y) {
  constexpr int kSums = 4;
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const hn::CappedTag<float, 8> d8;
  const hn::Rebind<hwy::float16_t, decltype(d8)> half8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d)), few = static_cast<int64_t>(hn::Lanes(d8));
  hn::Vec<decltype(d)> sums[kSums][kColumns];
#pragma GCC unroll 4
  for (int j = 0; j < kSums; ++j)
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c) sums[j][c] = hn::Zero(d);
  const auto step = [&](int j, int64_t at) HWY_ATTR {
    const auto xv = hn::LoadU(d, x + at);
#pragma GCC unroll 4
    for (int c = 0; c < kColumns; ++c)
      sums[j][c] = hn::MulAdd(xv, hn::PromoteTo(d, hn::LoadU(half, w + c * apart * k + at)), sums[j][c]);
  };
  int64_t i = 0;
  for (; i + kSums * lanes <= k; i += kSums * lanes) {
#pragma GCC unroll 4
    for (int j = 0; j < kSums; ++j) step(j, i + j * lanes);
  }
  for (; i + lanes <= k; i += lanes) step(0, i);
#pragma GCC unroll 4
  for (int c = 0; c < kColumns; ++c) {
    y[c * apart] =
        hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(sums[0][c], sums[1][c]), hn::Add(sums[2][c], sums[3][c]))));
    if (i == k) continue;
    auto rest = hn::Zero(d8);
    for (int64_t at = i; at < k; at += few)
      rest = hn::MulAdd(hn::LoadU(d8, x + at), hn::PromoteTo(d8, hn::LoadU(half8, w + c * apart * k + at)), rest);
    y[c * apart] += hn::GetLane(hn::SumOfLanes(d8, rest));
  }
}

/// y[j] = x times column j of w for j < n. k: a multiple of 8.
void row_times_f16(const float* x, const hwy::float16_t* w, int64_t k, int64_t n, float* y) {
  // As many ranges of columns as sums stay in registers. The hardware follows each range on its own, so that several
  // side by side keep more of memory on its way.
  constexpr int kRanges = HWY_MAX_BYTES >= 64 ? 4 : HWY_MAX_BYTES >= 32 ? 2 : 1;
  const int64_t range = n / kRanges;
  for (int64_t j = 0; j < range; ++j) dot_columns<kRanges>(x, w + j * k, k, range, y + j);
  for (int64_t j = range * kRanges; kRanges > 1 && j < n; ++j) dot_columns<1>(x, w + j * k, k, 0, y + j);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class RowTimesF16 final : public Kernel {
 public:
  RowTimesF16(const KernelSpec& spec, Tensor weights, int64_t k, int64_t n, const Activation& act)
      : weights_(std::move(weights)),
        k_(k),
        n_(n),
        act_(act),
        row_times_(SMELT_FOR_LEVEL(spec.isa, row_times_f16)),
        fixed_shapes_(spec.fixed_shapes) {
    if (spec.has(2)) bias_ = spec.constant(2)->read_once();
  }
  /// Single rows: as matmul_f32.
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return fixed_shapes_ && clamps(act_) && epilogue_.take(epilogue);
  }
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<float>();
    const auto* w = reinterpret_cast<const hwy::float16_t*>(weights_.unaligned_bytes());
    const float* const bias = bias_.defined() ? bias_.data<float>() : nullptr;
    auto* y = ctx.output(0).data<float>();
    constexpr int64_t kShare = 64;  // columns
    ctx.threads().parallel_for(n_, kShare, [&](int64_t begin, int64_t end) {
      row_times_(x, w + begin * k_, k_, end - begin, y + begin);
      const Bounds bounds = activation_bounds(act_);
      for (int64_t j = begin; j < end; ++j)
        y[j] = std::min(std::max(bias ? y[j] + bias[j] : y[j], bounds.lo), bounds.hi);
    });
    apply_activation(act_, y, 1, n_, n_);
    if (const EpilogueRun epilogue(epilogue_, ctx); epilogue) epilogue(y, 1, n_, n_);
    return Ok();
  }

 private:
  Tensor weights_;  ///< float16
  Tensor bias_;     ///< undefined: none
  int64_t k_, n_;
  Activation act_;
  EpilogueF32 epilogue_;
  void (*row_times_)(const float*, const hwy::float16_t*, int64_t, int64_t, float*);
  bool fixed_shapes_;
};

}  // namespace

std::unique_ptr<Kernel> make_row_times_f16(const KernelSpec& spec, int64_t k, int64_t n, const Activation& act) {
  constexpr int64_t kWhole = 8;
  const Tensor* const weights = float16_source(*spec.constant(1));
  if (!weights) return spec.refuse("the model has other weights than float16");
  if (k % kWhole != 0) return spec.refuse("columns are no multiples of 8 elements");
  return std::make_unique<RowTimesF16>(spec, *weights, k, n, act);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_matmul_row_f16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<MatMulAttrs>();
  if (!float16_source(*spec.constant(1))) return nullptr;
  const auto s = MatMulShape::make(spec);
  if (!s || s->m != 1 || s->batches != 1 || s->b_matrices != 1 || s->g.a.column_stride != 1 || s->g.b.row_stride != 1 ||
      s->g.b.column_stride != s->k)
    return spec.refuse("no row by columns that lie one behind the other");
  if (attrs.alpha != 1 || (spec.has(2) && (attrs.beta != 1 || !s->is_row(spec.inputs[2].shape)))) return nullptr;
  return make_row_times_f16(spec, s->k, s->n, attrs.act);
}

}  // namespace smelt
#endif
