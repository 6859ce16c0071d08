// TFLite's leaky ReLU of 16-bit values: two fixed-point factors, by the sign.
#include <algorithm>
#include <cmath>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/leaky_relu_i16.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/fixed_point-inl.h"
#include "backends/cpu/core/kernel.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/quant_params.h"

#ifndef SMELT_CPU_LEAKY_RELU_I16_
#define SMELT_CPU_LEAKY_RELU_I16_
namespace smelt {
struct LeakyRule {
  FixedFactor positive, negative;
  bool mirrored = false;  ///< the slope is negative
  int32_t x_zero = 0, y_zero = 0;
};
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void leaky_vector(const LeakyRule& r, const int16_t* x, int64_t n, int16_t* y) {
  const DI d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto right = [](FixedFactor f) { return FixedFactor{f.multiplier, std::min(f.shift, 0)}; };
  const Rescale<false> positive(right(r.positive), 0), negative(right(r.negative), 0);
  const int up = std::max(r.positive.shift, 0), down = std::max(r.negative.shift, 0);
  const VI x_zero = hn::Set(d, r.x_zero), y_zero = hn::Set(d, r.y_zero);
  const VI low = hn::Set(d, INT16_MIN), high = hn::Set(d, INT16_MAX);
  for (int64_t i = 0; i < n; i += lanes) {
    const int64_t here = std::min(lanes, n - i);
    const VI v = load_wide(x + i, 1, here, x_zero);
    VI below = negative(hn::ShiftLeftSame(v, down));
    if (r.mirrored) below = hn::Neg(below);
    const VI q = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), below, positive(hn::ShiftLeftSame(v, up)));
    store_narrow(hn::Min(hn::Max(hn::Add(q, y_zero), low), high), here, y + i);
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class LeakyReluI16 final : public Kernel {
 public:
  LeakyReluI16(const LeakyRule& rule, int64_t n, Isa isa)
      : rule_(rule), n_(n), rows_(SMELT_FOR_LEVEL(isa, leaky_vector)) {}
  Status run(KernelContext& ctx) const override {
    const auto* x = ctx.input(0).data<int16_t>();
    auto* y = ctx.output(0).data<int16_t>();
    ctx.threads().parallel_for(n_, 16384,
                               [&](int64_t begin, int64_t end) { rows_(rule_, x + begin, end - begin, y + begin); });
    return Ok();
  }

 private:
  LeakyRule rule_;
  int64_t n_;
  void (*rows_)(const LeakyRule&, const int16_t*, int64_t, int16_t*);
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_leaky_relu_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (attrs.fn != Unary::kLeakyRelu || attrs.rounding == Rounding::kFloatHalfEven || !is_per_tensor(x.quant) ||
      !is_per_tensor(y.quant))
    return nullptr;
  const float in = x.quant->scale(), out = y.quant->scale(), slope = in * static_cast<float>(attrs.a) / out;
  LeakyRule rule;
  rule.positive = fixed_factor(static_cast<double>(in / out));
  rule.negative = fixed_factor(static_cast<double>(std::fabs(slope)));
  rule.mirrored = slope < 0;
  rule.x_zero = x.quant->zero_point();
  rule.y_zero = y.quant->zero_point();
  // Accumulators with the zero points stay in 32 bits.
  constexpr int kMostUp = 8;
  if (std::abs(rule.x_zero) > INT16_MAX || std::abs(rule.y_zero) > INT16_MAX || rule.positive.shift > kMostUp ||
      rule.negative.shift > kMostUp)
    return nullptr;
  return std::make_unique<LeakyReluI16>(rule, x.shape.elements(), spec.isa);
}

}  // namespace smelt
#endif
