// Powers of float32 numbers: e^(b ln |a|) in float64, so that the error is that of the rounding to float32.
#include <cmath>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/pow_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"
// Behind it.
#include <hwy/contrib/math/math-inl.h>

#include "backends/cpu/core/broadcast.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/elementwise/elementwise.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// a^b of finite numbers, as std::pow has it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power(D d, V a, V b) {
  const V zero = hn::Zero(d), one = hn::Set(d, 1.0), size = hn::Abs(a);
  const auto is_zero = hn::Eq(a, zero);
  const V log = hn::Log(d, hn::IfThenElse(is_zero, one, size));
  // float32 is infinite or zero far inside these bounds.
  V y = hn::Exp(d, hn::Min(hn::Max(hn::Mul(b, log), hn::Set(d, -400.0)), hn::Set(d, 400.0)));
  const V of_zero = hn::IfThenElse(hn::Gt(b, zero), zero, hn::Set(d, std::numeric_limits<double>::infinity()));
  y = hn::IfThenElse(hn::And(is_zero, hn::Ne(b, zero)), of_zero, y);
  const V half = hn::Mul(b, hn::Set(d, 0.5));
  const auto whole = hn::Eq(hn::Round(b), b), odd = hn::And(whole, hn::Ne(hn::Round(half), half));
  const V sign = hn::CopySign(one, a);
  y = hn::IfThenElse(odd, hn::Mul(y, sign), y);
  return hn::IfThenElse(hn::AndNot(whole, hn::Lt(a, zero)), hn::NaN(d), y);
}

/// Operands with a stride of 0 or 1.
void power_row(const float* a, int64_t sa, const float* b, int64_t sb, float* y, int64_t n) {
  for_lanes<double>(n, [&](auto d, int64_t i) HWY_ATTR {
    const hn::Rebind<float, decltype(d)> narrow;
    const auto p = sa ? hn::LoadU(narrow, a + i) : hn::Set(narrow, *a);
    const auto q = sb ? hn::LoadU(narrow, b + i) : hn::Set(narrow, *b);
    if (hn::AllTrue(narrow, hn::And(hn::IsFinite(p), hn::IsFinite(q)))) {
      hn::StoreU(hn::DemoteTo(narrow, power(d, hn::PromoteTo(d, p), hn::PromoteTo(d, q))), narrow, y + i);
      return;
    }
    for (auto k = i, end = i + static_cast<int64_t>(hn::Lanes(d)); k < end; ++k) y[k] = std::pow(a[k * sa], b[k * sb]);
  });
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class PowF32 final : public Kernel {
 public:
  explicit PowF32(const KernelSpec& spec)
      : row_(SMELT_FOR_LEVEL(spec.isa, power_row)),
        loops_(BroadcastLoops::make(spec.inputs[0].shape, spec.inputs[1].shape, spec.outputs[0].shape)) {}
  Status run(KernelContext& ctx) const override {
    loops_.each_row(ctx, sizeof(float), sizeof(float),
                    [&](const void* a, int64_t sa, const void* b, int64_t sb, void* y, int64_t n) {
                      row_(static_cast<const float*>(a), sa, static_cast<const float*>(b), sb, static_cast<float*>(y),
                           n);
                    });
    return Ok();
  }

 private:
  void (*row_)(const float*, int64_t, const float*, int64_t, float*, int64_t);
  BroadcastLoops loops_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_pow_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (attrs.fn != Binary::kPow || attrs.act.kind != ActKind::kNone || spec.outputs[0].shape.elements() == 0)
    return spec.refuse("not a power, or one with an activation");
  return std::make_unique<PowF32>(spec);
}

}  // namespace smelt
#endif
