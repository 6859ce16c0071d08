// Softmax over values that do not lie side by side.
#include <algorithm>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/softmax/softmax_strided_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/log-inl.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/common/index.h"
#include "ops/softmax/softmax.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// softmax_strided() of rows of `n` that lie together, at most half a vector: a vector holds several rows, `wide`
/// lanes. Precondition: kMaskedLoads.
void softmax_narrow(const float* x, int64_t count, int64_t n, int64_t wide, float beta, bool logarithm, float* y) {
  const D d;
  const int64_t total = count * n;
  const auto each_part = [&](auto f) HWY_ATTR {
    const PartVector<D> whole{d, hn::FirstN(d, static_cast<size_t>(wide))};
    int64_t i = 0;
    for (; i + wide <= total; i += wide) f(whole, i);
    if (i < total) f(PartVector<D>{d, hn::FirstN(d, static_cast<size_t>(total - i))}, i);
  };
  // Each lane becomes what `join` makes of its column's lanes.
  const auto columns = [&](V v, auto join) HWY_ATTR {
    HWY_ALIGN float lanes[HWY_MAX_BYTES / 4];
    hn::Store(v, d, lanes);
    for (int64_t i = n; i < wide; ++i) lanes[i % n] = join(lanes[i % n], lanes[i]);
    for (int64_t i = n; i < wide; ++i) lanes[i] = lanes[i - n];
    return hn::Load(d, lanes);
  };
  V best = hn::Set(d, -std::numeric_limits<float>::infinity());
  each_part([&](const auto& part, int64_t i) HWY_ATTR { best = hn::Max(best, part.rest_as(part.load(x + i), best)); });
  best = columns(best, [](float a, float b) { return std::max(a, b); });
  V sum = hn::Zero(d);
  each_part([&](const auto& part, int64_t i) HWY_ATTR {
    const V shifted = hn::Mul(hn::Sub(part.load(x + i), best), hn::Set(d, beta));
    const V e = exp_nonpositive(d, shifted);
    sum = hn::Add(sum, part.rest_as(e, hn::Zero(d)));
    part.store(logarithm ? shifted : e, y + i);
  });
  sum = columns(sum, [](float a, float b) { return a + b; });
  const V term = logarithm ? log_of_sums(d, sum) : hn::Div(hn::Set(d, 1.0f), sum);
  each_part([&](const auto& part, int64_t i) HWY_ATTR {
    const V v = part.load(y + i);
    part.store(logarithm ? hn::Sub(v, term) : hn::Mul(v, term), y + i);
  });
}

/// Softmax over the first dimension of [count, n], or its logarithm: rows of n neighbours lie `stride` apart in x and
/// y.
void softmax_strided(const float* x, int64_t count, int64_t stride, int64_t n, float beta, bool logarithm, float* y) {
  if constexpr (kMaskedLoads) {
    constexpr int64_t kLanes = HWY_MAX_BYTES / 4;
    if (stride == n && n <= kLanes / 2) return softmax_narrow(x, count, n, kLanes / n * n, beta, logarithm, y);
  }
  each_vector(n, [&](auto part, int64_t i) HWY_ATTR {
    const auto d = part.d;
    auto best = part.load(x + i);
    for (int64_t t = 1; t < count; ++t) best = hn::Max(best, part.load(x + t * stride + i));
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t) {
      const auto shifted = hn::Mul(hn::Sub(part.load(x + t * stride + i), best), hn::Set(d, beta));
      const auto e = exp_nonpositive(d, shifted);
      sum = hn::Add(sum, e);
      part.store(logarithm ? shifted : e, y + t * stride + i);
    }
    const auto term = logarithm ? log_of_sums(d, sum) : hn::Div(hn::Set(d, 1.0f), sum);
    for (int64_t t = 0; t < count; ++t) {
      const auto v = part.load(y + t * stride + i);
      part.store(logarithm ? hn::Sub(v, term) : hn::Mul(v, term), y + t * stride + i);
    }
  });
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// Over the middle of [outer, count, inner].
class SoftmaxStridedF32 final : public Kernel {
 public:
  SoftmaxStridedF32(int64_t outer, int64_t count, int64_t inner, const KernelSpec& spec)
      : outer_(outer),
        count_(count),
        inner_(inner),
        beta_(static_cast<float>(spec.attrs<SoftmaxAttrs>().beta)),
        logarithm_(spec.attrs<SoftmaxAttrs>().kind == SoftmaxAttrs::Kind::kLogSoftmax),
        softmax_(SMELT_FOR_LEVEL(spec.isa, softmax_strided)) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    const int64_t chunks = (inner_ + kChunk - 1) / kChunk;
    ctx.threads().parallel_for(outer_ * chunks, std::max<int64_t>(1, 4 / count_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t first = i % chunks * kChunk, at = i / chunks * count_ * inner_ + first;
        softmax_(x + at, count_, inner_, std::min(kChunk, inner_ - first), beta_, logarithm_, y + at);
      }
    });
    return Ok();
  }

 private:
  static constexpr int64_t kChunk = 512;

  int64_t outer_, count_, inner_;
  float beta_;
  bool logarithm_;
  void (*softmax_)(const float*, int64_t, int64_t, int64_t, float, bool, float*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_softmax_strided_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<SoftmaxAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (shape.rank() == 0 || shape.elements() == 0) return nullptr;
  const int axis = static_cast<int>(attrs.axis < 0 ? attrs.axis + shape.rank() : attrs.axis);
  if (attrs.kind == SoftmaxAttrs::Kind::kHardmax || attrs.flatten || axis < 0 || axis >= shape.rank()) return nullptr;
  if (!(attrs.beta >= 0)) return spec.refuse("a negative factor");
  return std::make_unique<SoftmaxStridedF32>(product(shape, 0, axis), shape[axis],
                                             product(shape, axis + 1, shape.rank()), spec);
}

}  // namespace smelt
#endif
