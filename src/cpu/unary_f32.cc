#include <algorithm>
#include <cmath>

#include "cpu/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/unary_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "cpu/kernel.h"
#include "cpu/math-inl.h"
#include "ops/elementwise/elementwise.h"

#ifndef SMELT_CPU_UNARY_F32
#define SMELT_CPU_UNARY_F32
namespace smelt {
struct UnaryParameters {
  float a, b, c;
};
using UnaryRow = void (*)(const float* x, int64_t n, UnaryParameters p, float* y);
}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

#define SMELT_UNARY(Name, ...)                                                                               \
  struct Name {                                                                                              \
    static HWY_INLINE V apply([[maybe_unused]] D d, V x, [[maybe_unused]] UnaryParameters p) { __VA_ARGS__ } \
  };
SMELT_UNARY(AbsFn, return hn::Abs(x);)
SMELT_UNARY(NegFn, return hn::Neg(x);)
SMELT_UNARY(SquareFn, return hn::Mul(x, x);)
SMELT_UNARY(SqrtFn, return hn::Sqrt(x);)
SMELT_UNARY(RsqrtFn, return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x));)
SMELT_UNARY(ReciprocalFn, return hn::Div(hn::Set(d, 1.0f), x);)
SMELT_UNARY(FloorFn, return hn::Floor(x);)
SMELT_UNARY(CeilFn, return hn::Ceil(x);)
SMELT_UNARY(ReluFn, return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);)
SMELT_UNARY(ClampFn, return clamp(x, hn::Set(d, p.a), hn::Set(d, p.b));)
SMELT_UNARY(LeakyReluFn, return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, hn::Set(d, p.a)), x);)
SMELT_UNARY(HardSwishFn, return hn::Div(hn::Mul(x, clamp(hn::Add(x, hn::Set(d, 3.0f)), hn::Zero(d), hn::Set(d, 6.0f))),
                                        hn::Set(d, 6.0f));)
SMELT_UNARY(HardSigmoidFn,
            return clamp(hn::Add(hn::Mul(x, hn::Set(d, p.a)), hn::Set(d, p.b)), hn::Zero(d), hn::Set(d, 1.0f));)
SMELT_UNARY(ExpFn, return exp_f32(d, x);)
SMELT_UNARY(SigmoidFn, return sigmoid_f32(d, x);)
SMELT_UNARY(SiluFn, return hn::Mul(x, sigmoid_f32(d, hn::Mul(x, hn::Set(d, p.a))));)
SMELT_UNARY(TanhFn, return tanh_f32(d, x);)
SMELT_UNARY(ErfFn, return erf_f32(d, x);)
SMELT_UNARY(GeluFn, const V half = hn::Mul(x, hn::Set(d, 0.5f));
            return hn::Add(half, hn::Mul(half, erf_f32(d, hn::Mul(x, hn::Set(d, 0.70710678f)))));)
// (1 + tanh u) / 2 is the sigmoid of 2u, which does not cancel for negative u.
SMELT_UNARY(GeluTanhFn, const V cube = hn::Mul(hn::Mul(x, x), x);
            return hn::Mul(x, sigmoid_f32(d, hn::Mul(hn::Set(d, 1.59576912f),
                                                     hn::MulAdd(hn::Set(d, 0.044715f), cube, x))));)
#undef SMELT_UNARY

template <class F>
void unary_row(const float* x, int64_t n, UnaryParameters p, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(F::apply(d, hn::LoadU(d, x + i), p), d, y + i);
  if (i < n) {
    HWY_ALIGN float tail[HWY_MAX_BYTES / 4] = {};
    std::copy(x + i, x + n, tail);
    hn::Store(F::apply(d, hn::Load(d, tail), p), d, tail);
    std::copy_n(tail, n - i, y + i);
  }
}

UnaryRow choose_unary_row(Unary fn) {
  switch (fn) {
    case Unary::kAbs:
      return unary_row<AbsFn>;
    case Unary::kNeg:
      return unary_row<NegFn>;
    case Unary::kSquare:
      return unary_row<SquareFn>;
    case Unary::kSqrt:
      return unary_row<SqrtFn>;
    case Unary::kRsqrt:
      return unary_row<RsqrtFn>;
    case Unary::kReciprocal:
      return unary_row<ReciprocalFn>;
    case Unary::kFloor:
      return unary_row<FloorFn>;
    case Unary::kCeil:
      return unary_row<CeilFn>;
    case Unary::kRelu:
      return unary_row<ReluFn>;
    case Unary::kRelu6:
    case Unary::kReluN1:
    case Unary::kClamp:
      return unary_row<ClampFn>;
    case Unary::kLeakyRelu:
      return unary_row<LeakyReluFn>;
    case Unary::kHardSwish:
      return unary_row<HardSwishFn>;
    case Unary::kHardSigmoid:
      return unary_row<HardSigmoidFn>;
    case Unary::kExp:
      return unary_row<ExpFn>;
    case Unary::kSigmoid:
      return unary_row<SigmoidFn>;
    case Unary::kSilu:
    case Unary::kQuickGelu:
      return unary_row<SiluFn>;
    case Unary::kTanh:
      return unary_row<TanhFn>;
    case Unary::kErf:
      return unary_row<ErfFn>;
    case Unary::kGelu:
      return unary_row<GeluFn>;
    case Unary::kGeluTanh:
      return unary_row<GeluTanhFn>;
    default:
      return nullptr;
  }
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

class UnaryF32 final : public Kernel {
 public:
  UnaryF32(UnaryRow row, UnaryParameters p, int64_t n) : row_(row), p_(p), n_(n) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(n_, 8192,
                               [&](int64_t begin, int64_t end) { row_(x + begin, end - begin, p_, y + begin); });
    return Ok();
  }

 private:
  UnaryRow row_;
  UnaryParameters p_;
  int64_t n_;
};

}  // namespace

std::unique_ptr<Kernel> make_unary_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<UnaryAttrs>();
  for (const ValueType& t : {spec.inputs[0], spec.outputs[0]})
    if (t.dtype != DType::kF32 || t.quant) return nullptr;
  const UnaryRow row = SMELT_FOR_LEVEL(spec.isa, choose_unary_row)(attrs.fn);
  if (!row) return nullptr;
  UnaryParameters p{static_cast<float>(attrs.a), static_cast<float>(attrs.b), static_cast<float>(attrs.c)};
  if (attrs.fn == Unary::kRelu6) p = {0, 6, 0};
  if (attrs.fn == Unary::kReluN1) p = {-1, 1, 0};
  if ((attrs.fn == Unary::kSilu || attrs.fn == Unary::kQuickGelu) && p.a == 0) p.a = 1;
  return std::make_unique<UnaryF32>(row, p, spec.inputs[0].shape.elements());
}

}  // namespace smelt
#endif
