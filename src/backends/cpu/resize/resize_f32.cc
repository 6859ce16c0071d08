#include <algorithm>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/resize/resize_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "backends/cpu/resize/resize_passes.h"
#include "backends/cpu/resize/weighted_sum.h"

#ifndef SMELT_CPU_RESIZE_F32
#define SMELT_CPU_RESIZE_F32
namespace smelt {
/// to[i] = sum over t < taps of weight[t * n + i] * from[index[t * n + i]], i < n; taps > 0.
using WeightNumbers = void (*)(const float* from, const int32_t* index, const float* weight, int64_t taps, int64_t n,
                               float* to);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void weighted_sum(const float* from, const int64_t* index, const float* weight, int64_t taps, int64_t n, float* to) {
  each_vector(n, [&](auto part, int64_t j) HWY_ATTR {
    const auto d = part.d;
    auto sum = hn::Mul(hn::Set(d, weight[0]), part.load(from + index[0] * n + j));
    for (int64_t t = 1; t < taps; ++t) sum = hn::MulAdd(hn::Set(d, weight[t]), part.load(from + index[t] * n + j), sum);
    part.store(sum, to + j);
  });
}

void weight_numbers(const float* from, const int32_t* index, const float* weight, int64_t taps, int64_t n, float* to) {
  int64_t i = 0;
#if HWY_TARGET <= HWY_AVX3  // elsewhere gathers are missing or slower than single loads
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < taps; ++t)
      sum =
          hn::MulAdd(hn::LoadU(d, weight + t * n + i), hn::GatherIndex(d, from, hn::LoadU(di, index + t * n + i)), sum);
    hn::StoreU(sum, d, to + i);
  }
#endif
  for (; i < n; ++i) {
    float sum = 0;
    for (int64_t t = 0; t < taps; ++t) sum += weight[t * n + i] * from[index[t * n + i]];
    to[i] = sum;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

WeightedSum weighted_sum_of(Isa isa) { return SMELT_FOR_LEVEL(isa, weighted_sum); }

namespace {

using Pass = ResizePass<float>;

class ResizeF32 final : public Kernel {
 public:
  ResizeF32(std::vector<Pass> passes, const KernelSpec& spec)
      : passes_(std::move(passes)),
        elements_(spec.inputs[0].shape.elements()),
        rows_(weighted_sum_of(spec.isa)),
        numbers_(SMELT_FOR_LEVEL(spec.isa, weight_numbers)) {
    for (const Pass& p : passes_) taps_.push_back(p.inner == 1 ? taps_of(p) : Taps{});
    for (size_t i = 0; i + 1 < passes_.size(); ++i)
      workspace_ = std::max(workspace_, round_up(passes_[i].outer * passes_[i].out * passes_[i].inner, 16));
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(2 * workspace_) * sizeof(float); }
  Status run(KernelContext& ctx) const override {
    float* scratch = nullptr;
    if (const size_t bytes = scratch_bytes()) {
      scratch = static_cast<float*>(ctx.scratch(bytes));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory to resize");
    }
    const float* from = ctx.input(0).data<float>();
    float* const y = ctx.output(0).data<float>();
    if (passes_.empty()) std::copy_n(from, elements_, y);
    for (size_t i = 0; i < passes_.size(); ++i) {
      const Pass& p = passes_[i];
      float* to = i + 1 == passes_.size() ? y : scratch + static_cast<int64_t>(i % 2) * workspace_;
      if (taps_[i].count > 0) {
        const Taps& t = taps_[i];
        ctx.threads().parallel_for(p.outer, std::max<int64_t>(1, 16384 / p.out), [&](int64_t first, int64_t last) {
          for (int64_t row = first; row < last; ++row)
            numbers_(from + row * p.in, t.index.data(), t.weight.data(), t.count, p.out, to + row * p.out);
        });
        from = to;
        continue;
      }
      const int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(1, p.inner));
      ctx.threads().parallel_for(p.outer * p.out, grain, [&](int64_t first, int64_t last) {
        p.inner == 1 ? numbers(p, from, first, last, to) : vectors(p, from, first, last, to);
      });
      from = to;
    }
    return Ok();
  }

 private:
  /// Output places [first, last), counted over all of outer.
  void vectors(const Pass& p, const float* from, int64_t first, int64_t last, float* to) const {
    for (int64_t at = first; at < last; ++at) {
      const auto i = static_cast<size_t>(at % p.out);
      const int64_t b = p.begin[i];
      rows_(from + at / p.out * p.in * p.inner, p.index.data() + b, p.weight.data() + b, p.begin[i + 1] - b, p.inner,
            to + at * p.inner);
    }
  }
  static void numbers(const Pass& p, const float* from, int64_t first, int64_t last, float* to) {
    for (int64_t at = first; at < last; ++at) {
      const auto i = static_cast<size_t>(at % p.out);
      const float* row = from + at / p.out * p.in;
      float sum = 0;
      for (auto k = static_cast<size_t>(p.begin[i]); k < static_cast<size_t>(p.begin[i + 1]); ++k)
        sum += p.weight[k] * row[p.index[k]];
      to[at] = sum;
    }
  }

  /// The entries of a pass over neighbours with as many taps each: tap t of entry i at t * out + i.
  struct Taps {
    int64_t count = 0;  ///< 0: entries have too many
    std::vector<int32_t> index;
    std::vector<float> weight;
  };
  static Taps taps_of(const Pass& p) {
    constexpr int64_t kMost = 4;
    int64_t count = 0;
    for (int64_t i = 0; i < p.out; ++i)
      count = std::max(count, p.begin[static_cast<size_t>(i + 1)] - p.begin[static_cast<size_t>(i)]);
    Taps t;
    if (count > kMost || p.in > INT32_MAX) return t;
    t.count = count;
    t.index.resize(static_cast<size_t>(count * p.out));
    t.weight.resize(t.index.size());
    for (int64_t i = 0; i < p.out; ++i) {
      const auto begin = static_cast<size_t>(p.begin[static_cast<size_t>(i)]);
      const int64_t own = p.begin[static_cast<size_t>(i + 1)] - p.begin[static_cast<size_t>(i)];
      // An entry with fewer taps has its first one in equal parts: a weight of zero would make NaN of infinity.
      const auto parts = static_cast<float>(count - own + 1);
      for (int64_t k = 0; k < count; ++k) {
        const size_t from = k < own ? begin + static_cast<size_t>(k) : begin, at = static_cast<size_t>(k * p.out + i);
        t.index[at] = static_cast<int32_t>(p.index[from]);
        t.weight[at] = from == begin ? p.weight[from] / parts : p.weight[from];
      }
    }
    return t;
  }

  std::vector<Pass> passes_;
  std::vector<Taps> taps_;  ///< of each pass
  int64_t elements_, workspace_ = 0;
  WeightedSum rows_;
  WeightNumbers numbers_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_resize_f32(const KernelSpec& spec) {
  auto passes = resize_passes<float>(spec);
  if (!passes) return spec.refuse("sizes that are not known, or coordinates outside the image");
  return std::make_unique<ResizeF32>(std::move(*passes), spec);
}

}  // namespace smelt
#endif
