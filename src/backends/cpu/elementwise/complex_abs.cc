#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/complex_abs.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/elementwise/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// y[i] = |x[i]| of n complex numbers, in float64: squares of float32 neither overflow nor vanish there.
void complex_abs(const float* x, int64_t n, float* y) {
  const auto step = [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(d)> narrow;
    hn::Vec<decltype(narrow)> a, b;
    hn::LoadInterleaved2(narrow, x + 2 * i, a, b);
    const auto re = hn::PromoteTo(d, a), im = hn::PromoteTo(d, b);
    const auto infinite = hn::Set(d, std::numeric_limits<double>::infinity());
    const auto size = hn::Sqrt(hn::MulAdd(re, re, hn::Mul(im, im)));
    const auto is_infinite = hn::Or(hn::IsInf(re), hn::IsInf(im));
    hn::StoreU(hn::DemoteTo(narrow, hn::IfThenElse(is_infinite, infinite, size)), narrow, y + i);
  };
  for_lanes<double>(n, step);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class ComplexAbs final : public Kernel {
 public:
  explicit ComplexAbs(const KernelSpec& spec) : abs_(SMELT_FOR_LEVEL(spec.isa, complex_abs)) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = static_cast<const float*>(ctx.input(0).raw());
    Tensor& y = ctx.output(0);
    constexpr int64_t kBlock = 16384;
    ctx.threads().parallel_for(y.elements(), kBlock, [&](int64_t begin, int64_t end) {
      abs_(x + 2 * begin, end - begin, y.data<float>() + begin);
    });
    return Ok();
  }

 private:
  void (*abs_)(const float* x, int64_t n, float* y);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_complex_abs(const KernelSpec& spec) {
  if (spec.attrs<UnaryAttrs>().fn != Unary::kAbs) return nullptr;
  return std::make_unique<ComplexAbs>(spec);
}

}  // namespace smelt
#endif
