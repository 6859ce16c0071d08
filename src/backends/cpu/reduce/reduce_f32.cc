#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/reduce/reduce_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/reduce/reduce_view.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] = sum over t < count of taps[t][i]^2, or its root.
void sum_square_taps(const float* const* taps, int64_t count, int64_t n, bool root, float* y) {
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    auto sum = hn::Zero(part.d), other = sum;
    int64_t t = 0;
    for (; t + 2 <= count; t += 2) {
      const auto a = part.load(taps[t] + i), b = part.load(taps[t + 1] + i);
      sum = hn::MulAdd(a, a, sum);
      other = hn::MulAdd(b, b, other);
    }
    for (; t < count; ++t) {
      const auto a = part.load(taps[t] + i);
      sum = hn::MulAdd(a, a, sum);
    }
    sum = hn::Add(sum, other);
    part.store(root ? hn::Sqrt(sum) : sum, y + i);
  });
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// [outer, count, inner] -> [outer, inner].
class ReduceF32 final : public Kernel {
 public:
  ReduceF32(const ReduceView& v, Reduction fn, int64_t threads, Isa isa)
      : outer_(v.outer),
        count_(v.count),
        inner_(v.inner),
        fn_(fn),
        threads_(threads),
        ops_(vector_ops(isa)),
        squares_(SMELT_FOR_LEVEL(isa, sum_square_taps)) {}
  size_t scratch_bytes() const override {
    return inner_ == 1 ? 0 : static_cast<size_t>(threads_ * count_) * sizeof(float*);
  }
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const double divisor = fn_ == Reduction::kMean ? static_cast<double>(count_) : 1.0;
    if (inner_ == 1) {
      ctx.threads().parallel_for(outer_, std::max<int64_t>(1, 16384 / count_), [&](int64_t begin, int64_t end) {
        if (fn_ == Reduction::kSum || fn_ == Reduction::kMean)
          return ops_.mean_rows(x + begin * count_, end - begin, count_, divisor, y + begin);
        for (int64_t i = begin; i < end; ++i) y[i] = of_row(x + i * count_);
      });
      return Ok();
    }
    auto* scratch = static_cast<const float**>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a reduction");
    const float inf = std::numeric_limits<float>::infinity();
    in_slots(ctx.threads(), threads_, outer_, [&](int64_t i, int64_t slot) {
      const float** taps = scratch + slot * count_;
      for (int64_t t = 0; t < count_; ++t) taps[t] = x + (i * count_ + t) * inner_;
      if (fn_ == Reduction::kSumSquare || fn_ == Reduction::kL2) {
        squares_(taps, count_, inner_, fn_ == Reduction::kL2, y + i * inner_);
        return;
      }
      (fn_ == Reduction::kMax ? ops_.max_taps : ops_.sum_taps)(taps, count_, inner_, y + i * inner_);
      if (fn_ == Reduction::kMean) ops_.scale_clamp(y + i * inner_, inner_, static_cast<float>(1 / divisor), -inf, inf);
    });
    return Ok();
  }

 private:
  float of_row(const float* row) const {
    if (fn_ == Reduction::kMax) return ops_.reduce_max(row, count_);
    const double squares = ops_.reduce_sum_squares(row, count_);
    return static_cast<float>(fn_ == Reduction::kL2 ? std::sqrt(squares) : squares);
  }

  int64_t outer_, count_, inner_;
  Reduction fn_;
  int64_t threads_;
  const VectorOps& ops_;
  void (*squares_)(const float* const*, int64_t, int64_t, bool, float*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_reduce_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const bool squares = attrs.fn == Reduction::kSumSquare || attrs.fn == Reduction::kL2;
  if (!squares && attrs.fn != Reduction::kSum && attrs.fn != Reduction::kMean && attrs.fn != Reduction::kMax)
    return nullptr;
  if (attrs.accumulate != DType::kInvalid && attrs.accumulate != DType::kF32) return nullptr;
  const auto v = reduce_view(spec);
  if (!v) return nullptr;
  return std::make_unique<ReduceF32>(*v, attrs.fn, std::max(spec.threads, 1), spec.isa);
}

}  // namespace smelt
#endif
