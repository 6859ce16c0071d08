#include <algorithm>

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vector_ops.h"
#include "backends/cpu/reduce/reduce_view.h"
#include "base/thread_pool.h"

namespace smelt {
namespace {

class CumulativeSumF32 final : public Kernel {
 public:
  CumulativeSumF32(const AxisView& v, const CumulativeAttrs& a, Isa isa)
      : v_(v), exclusive_(a.exclusive), reverse_(a.reverse), ops_(vector_ops(isa)) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<float>();
    auto* y = ctx.output(0).data<float>();
    const int64_t chunks = ceil_div(v_.inner, kChunk), rows = v_.extent * v_.inner;
    const int64_t grain = std::max<int64_t>(1, 16384 / (v_.extent * std::min(v_.inner, kChunk)));
    ctx.threads().parallel_for(v_.outer * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % chunks * kChunk, at = i / chunks * rows + first;
        if (v_.inner == 1)
          row(x + at, y + at);
        else
          columns(x + at, std::min(kChunk, v_.inner - first), y + at);
      }
    });
    return Ok();
  }

 private:
  static constexpr int64_t kChunk = 512;
  void row(const float* x, float* y) const {
    const int64_t step = reverse_ ? -1 : 1, first = reverse_ ? v_.extent - 1 : 0;
    double sum = 0;
    for (int64_t k = 0, i = first; k < v_.extent; ++k, i += step) {
      const double next = sum + static_cast<double>(x[i]);
      y[i] = static_cast<float>(exclusive_ ? sum : next);
      sum = next;
    }
  }
  /// n neighbouring sums.
  void columns(const float* x, int64_t n, float* y) const {
    const int64_t step = reverse_ ? -v_.inner : v_.inner, first = reverse_ ? (v_.extent - 1) * v_.inner : 0;
    x += first;
    y += first;
    if (exclusive_)
      std::fill_n(y, n, 0.0f);
    else
      std::copy_n(x, n, y);
    for (int64_t k = 1; k < v_.extent; ++k, x += step, y += step) {
      const float* const taps[2] = {y, exclusive_ ? x : x + step};
      ops_.sum_taps(taps, 2, n, y + step);
    }
  }

  AxisView v_;
  bool exclusive_, reverse_;
  const VectorOps& ops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_cumulative_sum_f32(const KernelSpec& spec) {
  const auto v = cumulative_sum_view(spec);
  return v ? std::make_unique<CumulativeSumF32>(*v, spec.attrs<CumulativeAttrs>(), spec.isa) : nullptr;
}

}  // namespace smelt
