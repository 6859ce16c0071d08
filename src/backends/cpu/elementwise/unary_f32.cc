#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/unary_f32.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Behind it.
#include <hwy/contrib/math/math-inl.h>

#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/math-inl.h"
#include "backends/cpu/core/vectors-inl.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

/// e^x - 1 for x <= 0.
HWY_INLINE V expm1_below(D d, V x) {
  const V y = hn::Expm1(d, hn::Max(x, hn::Set(d, -100.0f)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
/// ln(1 + e^x).
HWY_INLINE V softplus(D d, V x) {
  const V y = hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, exp_nonpositive(d, hn::Neg(hn::Abs(x)))));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}
HWY_INLINE V log_real(D d, V x) {
  const V inf = hn::Set(d, std::numeric_limits<float>::infinity());
  V y = hn::Log(d, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(inf), y);
  y = hn::IfThenElse(hn::Eq(x, inf), inf, y);
  return hn::IfThenElse(hn::Or(hn::Lt(x, hn::Zero(d)), hn::IsNaN(x)), hn::NaN(d), y);
}
/// Angles beyond what the vector function reduces well go one by one.
template <class F>
HWY_INLINE V of_angle(D d, V x, V y, F&& one) {
  const auto small = hn::Lt(hn::Abs(x), hn::Set(d, 8192.0f));
  if (hn::AllTrue(d, small)) return y;
  HWY_ALIGN float in[HWY_MAX_BYTES / 4], out[HWY_MAX_BYTES / 4];
  hn::Store(x, d, in);
  for (size_t i = 0; i < HWY_MAX_BYTES / 4; ++i) out[i] = one(in[i]);
  return hn::IfThenElse(small, y, hn::Load(d, out));
}
/// x to the power p.a + p.b / 4, its reciprocal where p.c is set.
HWY_INLINE V power(D d, V x, UnaryParameters p) {
  if (p.b != 0) {  // roots of -0 and -infinity as pow() has them
    const auto bare = hn::Or(hn::Eq(x, hn::Zero(d)), hn::IsInf(x));
    x = hn::IfThenElse(bare, hn::Abs(x), x);
  }
  V y = hn::Set(d, 1.0f);
  for (float i = 0; i < p.a; i += 1) y = hn::Mul(y, x);
  if (p.b != 0) {
    const V root = hn::Sqrt(x);
    if (p.b >= 2) y = hn::Mul(y, root);
    if (p.b != 2) y = hn::Mul(y, hn::Sqrt(root));
  }
  return p.c != 0 ? hn::Div(hn::Set(d, 1.0f), y) : y;
}

/// x / 2 * (1 + erf(x / sqrt(2))), error up to 7e-7 for negative x and 4 units in the last place for others.
/// erf(x / sqrt(2)) is x p(x^2) / q(x^2) on [-5.374, 5.374]: the fit with the smallest relative error, by weighted
/// least squares. Results below -5.374, of less than 2.1e-7, are zero.
HWY_INLINE V gelu_f32(D d, V x) {
  const V least = hn::Set(d, -5.3740115f);
  const V c = clamp(x, least, hn::Neg(least)), s = hn::Mul(c, c);
  V p = hn::Set(d, 4.75315891e-8f), q = hn::Set(d, 1.22542163e-6f);
  p = hn::MulAdd(p, s, hn::Set(d, 1.26620276e-5f));
  q = hn::MulAdd(q, s, hn::Set(d, 7.09438041e-5f));
  p = hn::MulAdd(p, s, hn::Set(d, 3.19530544e-4f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.83340861e-3f));
  p = hn::MulAdd(p, s, hn::Set(d, 9.24731756e-3f));
  q = hn::MulAdd(q, s, hn::Set(d, 2.81229913e-2f));
  p = hn::MulAdd(p, s, hn::Set(d, 6.58491833e-2f));
  q = hn::MulAdd(q, s, hn::Set(d, 2.4919619e-1f));
  p = hn::MulAdd(p, s, hn::Set(d, 7.97884551e-1f));
  q = hn::MulAdd(q, s, hn::Set(d, 1.0f));
  const V twice = hn::IfThenZeroElse(hn::Lt(x, least), hn::Div(hn::MulAdd(c, p, q), q));
  return hn::Mul(hn::Mul(x, hn::Set(d, 0.5f)), twice);
}

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
SMELT_UNARY(GeluFn, return gelu_f32(d, x);)
// (1 + tanh u) / 2 is the sigmoid of 2u, which does not cancel for negative u.
SMELT_UNARY(GeluTanhFn, const V cube = hn::Mul(hn::Mul(x, x), x);
            return hn::Mul(x, sigmoid_f32(d, hn::Mul(hn::Set(d, 1.59576912f),
                                                     hn::MulAdd(hn::Set(d, 0.044715f), cube, x))));)
SMELT_UNARY(RoundFn, return hn::Round(x);)
SMELT_UNARY(TruncFn, return hn::Trunc(x);)
SMELT_UNARY(SignFn, const V one = hn::Set(d, 1.0f); const V y = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one, x);
            return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(one), y);)
SMELT_UNARY(SoftsignFn, return hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x)));)
SMELT_UNARY(ThresholdedReluFn, return hn::IfThenElse(hn::Gt(x, hn::Set(d, p.a)), x, hn::Set(d, p.b));)
SMELT_UNARY(LogFn, return log_real(d, x);)
SMELT_UNARY(SinFn, return of_angle(d, x, hn::Sin(d, x), [](float v) { return std::sin(v); });)
SMELT_UNARY(CosFn, return of_angle(d, x, hn::Cos(d, x), [](float v) { return std::cos(v); });)
// alpha a, scale b, input scale c
SMELT_UNARY(EluFn, const V scaled = hn::Mul(x, hn::Set(d, p.b));
            const V low = hn::Mul(hn::Set(d, p.a* p.b),
                                  expm1_below(d, hn::Min(hn::Mul(x, hn::Set(d, p.c)), hn::Zero(d))));
            return hn::IfThenElse(hn::Le(x, hn::Zero(d)), low, scaled);)
// beta a, threshold b or infinity, 1 / beta c
SMELT_UNARY(SoftplusFn, const V scaled = hn::Mul(x, hn::Set(d, p.a));
            const V y = hn::Mul(softplus(d, scaled), hn::Set(d, p.c));
            return hn::IfThenElse(hn::Gt(scaled, hn::Set(d, p.b)), x, y);)
SMELT_UNARY(LogSigmoidFn, return hn::Neg(softplus(d, hn::Neg(x)));)
SMELT_UNARY(MishFn, return hn::Mul(x, tanh_f32(d, softplus(d, x)));)
SMELT_UNARY(PowerFn, return power(d, x, p);)
#undef SMELT_UNARY

template <class F>
void unary_vector(const float* x, int64_t n, UnaryParameters p, float* y) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(F::apply(d, hn::LoadU(d, x + i), p), d, y + i);
  if (i == n) return;
  if constexpr (kMaskedLoads) {
    const PartVector<D> part{d, hn::FirstN(d, static_cast<size_t>(n - i))};
    part.store(F::apply(d, part.load(x + i), p), y + i);
  } else {
    HWY_ALIGN float tail[HWY_MAX_BYTES / 4] = {};
    std::copy(x + i, x + n, tail);
    hn::Store(F::apply(d, hn::Load(d, tail), p), d, tail);
    std::copy_n(tail, n - i, y + i);
  }
}

UnaryVector power_vector() { return unary_vector<PowerFn>; }

UnaryVector choose_unary_vector(Unary fn) {
  switch (fn) {
    case Unary::kAbs:
      return unary_vector<AbsFn>;
    case Unary::kNeg:
      return unary_vector<NegFn>;
    case Unary::kSquare:
      return unary_vector<SquareFn>;
    case Unary::kSqrt:
      return unary_vector<SqrtFn>;
    case Unary::kRsqrt:
      return unary_vector<RsqrtFn>;
    case Unary::kReciprocal:
      return unary_vector<ReciprocalFn>;
    case Unary::kFloor:
      return unary_vector<FloorFn>;
    case Unary::kCeil:
      return unary_vector<CeilFn>;
    case Unary::kRelu:
      return unary_vector<ReluFn>;
    case Unary::kRelu6:
    case Unary::kReluN1:
    case Unary::kClamp:
      return unary_vector<ClampFn>;
    case Unary::kLeakyRelu:
      return unary_vector<LeakyReluFn>;
    case Unary::kHardSwish:
      return unary_vector<HardSwishFn>;
    case Unary::kHardSigmoid:
      return unary_vector<HardSigmoidFn>;
    case Unary::kExp:
      return unary_vector<ExpFn>;
    case Unary::kSigmoid:
      return unary_vector<SigmoidFn>;
    case Unary::kSilu:
    case Unary::kQuickGelu:
      return unary_vector<SiluFn>;
    case Unary::kTanh:
      return unary_vector<TanhFn>;
    case Unary::kErf:
      return unary_vector<ErfFn>;
    case Unary::kGelu:
      return unary_vector<GeluFn>;
    case Unary::kGeluTanh:
      return unary_vector<GeluTanhFn>;
    case Unary::kRound:
      return unary_vector<RoundFn>;
    case Unary::kTrunc:
      return unary_vector<TruncFn>;
    case Unary::kSign:
      return unary_vector<SignFn>;
    case Unary::kSoftsign:
      return unary_vector<SoftsignFn>;
    case Unary::kThresholdedRelu:
      return unary_vector<ThresholdedReluFn>;
    case Unary::kLog:
      return unary_vector<LogFn>;
    case Unary::kSin:
      return unary_vector<SinFn>;
    case Unary::kCos:
      return unary_vector<CosFn>;
    case Unary::kElu:
    case Unary::kCelu:
    case Unary::kSelu:
      return unary_vector<EluFn>;
    case Unary::kSoftplus:
      return unary_vector<SoftplusFn>;
    case Unary::kLogSigmoid:
      return unary_vector<LogSigmoidFn>;
    case Unary::kMish:
      return unary_vector<MishFn>;
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
  UnaryF32(UnaryVector row, UnaryParameters p, int64_t n) : row_(row), p_(p), n_(n) {}
  Status run(KernelContext& ctx) const override {
    const float* x = ctx.input(0).data<float>();
    float* y = ctx.output(0).data<float>();
    ctx.threads().parallel_for(n_, 8192,
                               [&](int64_t begin, int64_t end) { row_(x + begin, end - begin, p_, y + begin); });
    return Ok();
  }

 private:
  UnaryVector row_;
  UnaryParameters p_;
  int64_t n_;
};

/// A function with its parameters.
struct UnaryFunction {
  UnaryVector vector;
  UnaryParameters parameters;
};

/// nullopt: there is no fast one.
std::optional<UnaryFunction> unary_function(const UnaryAttrs& attrs, Isa isa) {
  const UnaryVector vector = SMELT_FOR_LEVEL(isa, choose_unary_vector)(attrs.fn);
  if (!vector) return std::nullopt;
  UnaryParameters p{static_cast<float>(attrs.a), static_cast<float>(attrs.b), static_cast<float>(attrs.c)};
  if (attrs.fn == Unary::kRelu6) p = {0, 6, 0};
  if (attrs.fn == Unary::kReluN1) p = {-1, 1, 0};
  if ((attrs.fn == Unary::kSilu || attrs.fn == Unary::kQuickGelu) && p.a == 0) p.a = 1;
  const auto or_one = [](float parameter) { return parameter == 0 ? 1.0f : parameter; };
  if (attrs.fn == Unary::kElu) p = {p.a, or_one(p.b), or_one(p.c)};
  if (attrs.fn == Unary::kSelu) p = {p.a, p.b, 1};
  if (attrs.fn == Unary::kCelu) {
    if (!(std::abs(p.a) > 0)) return std::nullopt;
    p = {p.a, 1, 1 / p.a};
  }
  if (attrs.fn == Unary::kSoftplus)
    p = {or_one(p.a), p.b > 0 ? p.b : std::numeric_limits<float>::infinity(), 1 / or_one(p.a)};
  return UnaryFunction{vector, p};
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_unary_f32(const KernelSpec& spec) {
  const auto fn = unary_function(spec.attrs<UnaryAttrs>(), spec.isa);
  return fn ? std::make_unique<UnaryF32>(fn->vector, fn->parameters, spec.inputs[0].shape.elements()) : nullptr;
}

EpilogueF32 EpilogueF32::of_unary(const NodeSpec& node, Isa isa) {
  EpilogueF32 e;
  if (node.inputs.size() != 1 || node.outputs.size() != 1) return e;
  const ValueType &x = node.inputs[0], &y = node.outputs[0];
  if (!is_unquantized_f32(x) || !is_unquantized_f32(y) || !(x.shape == y.shape)) return e;
  if (const auto fn = unary_function(node.attrs<UnaryAttrs>(), isa)) {
    e.unary = fn->vector;
    e.parameters = fn->parameters;
  }
  return e;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_power_f32(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<BinaryAttrs>();
  if (attrs.fn != Binary::kPow || attrs.act.kind != ActKind::kNone) return nullptr;
  const Tensor* exponent = spec.constant(1);
  if (!exponent || exponent->elements() != 1 || spec.inputs[1].quant ||
      !(is_float(exponent->dtype()) || is_integer(exponent->dtype())) ||
      spec.outputs[0].shape.elements() != spec.inputs[0].shape.elements())
    return nullptr;
  const double quarters = std::abs(get_double(*exponent, 0)) * 4;
  if (!(quarters <= 16) || quarters != std::floor(quarters)) return nullptr;
  const auto whole = std::floor(quarters / 4);
  const UnaryParameters p{static_cast<float>(whole), static_cast<float>(quarters - whole * 4),
                          get_double(*exponent, 0) < 0 ? 1.0f : 0.0f};
  return std::make_unique<UnaryF32>(SMELT_FOR_LEVEL(spec.isa, power_vector)(), p, spec.inputs[0].shape.elements());
}

}  // namespace smelt
#endif
