#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/elementwise/unary_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"
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

#if HWY_TARGET == HWY_AVX3
/// Polynomials of degree 5 in t, |t| <= 1/2, of 16 segments: |x| = (segment + t) / 2.6875. They are fits with the
/// smallest absolute error. The last segment is zero: results below -5.395 are, of less than 1.9e-7.
using Segments = float[6][16];
/// The normal distribution's share below -|x|.
HWY_ALIGN constexpr Segments kShareOfNormal = {
    {0.5f, 0.354911804f, 0.228381962f, 0.13215135f, 0.0683263987f, 0.0314098746f, 0.0127890473f, 0.00459839171f,
     0.00145663507f, 0.000405757572f, 9.92453133e-05f, 2.12893374e-05f, 4.00129602e-06f, 6.58383328e-07f,
     9.47783505e-08f, 0.0f},
    {-0.148443639f, -0.13851501f, -0.112538897f, -0.0796120837f, -0.0490372218f, -0.0262992419f, -0.0122809261f,
     -0.00499332184f, -0.00176774058f, -0.000544901646f, -0.00014624749f, -3.41766572e-05f, -6.95411336e-06f,
     -1.23204143e-06f, -1.90055545e-07f, 0.0f},
    {-4.69031818e-08f, 0.00958868209f, 0.0155810891f, 0.016533697f, 0.0135787781f, 0.00910316594f, 0.00510109682f,
     0.00241972646f, 0.000978988945f, 0.000339477148f, 0.00010122919f, 2.60189627e-05f, 5.77457013e-06f,
     1.10807184e-06f, 1.84025794e-07f, 0.0f},
    {0.00342578767f, 0.00275372039f, 0.00115872512f, -0.00045200868f, -0.00137508835f, -0.00149370276f, -0.00112913002f,
     -0.000666494248f, -0.000320669555f, -0.000128438478f, -4.33473906e-05f, -1.24217268e-05f, -3.03807133e-06f,
     -6.36513391e-07f, -1.14548541e-07f, 0.0f},
    {-1.26205146e-06f, -0.000313989178f, -0.000436734554f, -0.000333234959f, -0.000123545949f, 4.70721425e-05f,
     0.000115768387f, 0.00010531627f, 6.62966268e-05f, 3.23703971e-05f, 1.28064166e-05f, 4.19635944e-06f,
     1.15362241e-06f, 2.6828269e-07f, 5.30799582e-08f, 0.0f},
    {-6.94658811e-05f, -4.80948947e-05f, 1.2936826e-07f, 3.67720422e-05f, 4.18941454e-05f, 2.42946608e-05f,
     4.17317324e-06f, -6.52146946e-06f, -7.96026052e-06f, -5.35341223e-06f, -2.62251751e-06f, -1.01092746e-06f,
     -3.17234822e-07f, -8.25507698e-08f, -1.80169941e-08f, 0.0f},
};
/// (1 - tanh(sqrt(2 / pi) (|x| + 0.044715 |x|^3))) / 2.
HWY_ALIGN constexpr Segments kShareOfTanh = {
    {0.5f, 0.354927182f, 0.228472367f, 0.132322699f, 0.068474412f, 0.0314203389f, 0.0126587413f, 0.00441951118f,
     0.00131537311f, 0.000327469228f, 6.67985223e-05f, 1.09266612e-05f, 1.40224813e-06f, 1.38108973e-07f,
     1.02120623e-08f, 0.0f},
    {-0.148443639f, -0.138471901f, -0.112442054f, -0.0795688033f, -0.0491292216f, -0.0264608543f, -0.0123833204f,
     -0.00499023404f, -0.00170717109f, -0.000486802426f, -0.000113321257f, -2.10681101e-05f, -3.05940216e-06f,
     -3.39395484e-07f, -2.81353945e-08f, 0.0f},
    {-4.9116462e-08f, 0.00962441135f, 0.0155872172f, 0.0164763294f, 0.0135154752f, 0.00910268258f, 0.00515237078f,
     0.00246519106f, 0.000990476692f, 0.000329204428f, 8.87367132e-05f, 1.89783786e-05f, 3.14939734e-06f,
     3.96599177e-07f, 3.70729296e-08f, 0.0f},
    {0.00344275939f, 0.00275630085f, 0.0011383458f, -0.000467808102f, -0.0013625666f, -0.00146973366f, -0.0011214125f,
     -0.000675941468f, -0.00033136562f, -0.000131978944f, -4.20901342e-05f, -1.05364061e-05f, -2.02660476e-06f,
     -2.93167716e-07f, -3.12264916e-08f, 0.0f},
    {-1.32154253e-06f, -0.000320122577f, -0.000440042233f, -0.000327818474f, -0.00011713487f, 4.58487084e-05f,
     0.000110417997f, 0.000102940598f, 6.75663105e-05f, 3.41122322e-05f, 1.34077627e-05f, 4.06148365e-06f,
     9.32563239e-07f, 1.59378445e-07f, 1.99010568e-08f, 0.0f},
    {-7.10133536e-05f, -4.86092576e-05f, 1.68516215e-06f, 3.81377104e-05f, 4.08988053e-05f, 2.27419368e-05f,
     4.18977652e-06f, -5.61889919e-06f, -7.53740187e-06f, -5.51274616e-06f, -2.84601538e-06f, -1.07962035e-06f,
     -3.01081229e-07f, -6.11165234e-08f, -8.90901752e-09f, 0.0f},
};
/// x times a share: of -|x| for negative x, else 1 less that. Errors up to 2e-7 for negative x and 2 units in the last
/// place for others. A rational function, as the other targets have it, takes twice as long for its division.
HWY_INLINE V times_share(D d, V x, const Segments& segments) {
  constexpr int kDegree = 5;
  constexpr float kScale = 2.6875f;
  // The sum with 1.5 * 2^23 rounds to a whole number, which its last bits are.
  const V shift = hn::Set(d, 12582912.0f), scale = hn::Set(d, kScale);
  const V a = hn::Min(hn::Abs(x), hn::Set(d, 15 / kScale));
  const V sum = hn::MulAdd(a, scale, shift);
  const V t = hn::MulSub(a, scale, hn::Sub(sum, shift));
  const __m512i segment = _mm512_castps_si512(sum.raw);  // of which the permutation reads four bits
  const auto coefficient = [&](int i)
                               HWY_ATTR { return V{_mm512_permutexvar_ps(segment, hn::Load(d, segments[i]).raw)}; };
  V below = coefficient(kDegree);
#pragma GCC unroll 5
  for (int i = kDegree - 1; i >= 0; --i) below = hn::MulAdd(below, t, coefficient(i));
  return hn::Mul(x, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), below, hn::Sub(hn::Set(d, 1.0f), below)));
}
HWY_INLINE V gelu_f32(D d, V x) { return times_share(d, x, kShareOfNormal); }
HWY_INLINE V gelu_tanh_f32(D d, V x) { return times_share(d, x, kShareOfTanh); }
#else
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
/// (1 + tanh u) / 2 is the sigmoid of 2u, which does not cancel for negative u.
HWY_INLINE V gelu_tanh_f32(D d, V x) {
  const V cube = hn::Mul(hn::Mul(x, x), x);
  return hn::Mul(x, sigmoid_f32(d, hn::Mul(hn::Set(d, 1.59576912f), hn::MulAdd(hn::Set(d, 0.044715f), cube, x))));
}
#endif

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
SMELT_UNARY(HardSwishFn, return hn::Mul(hn::Mul(x, clamp(hn::Add(x, hn::Set(d, 3.0f)), hn::Zero(d), hn::Set(d, 6.0f))),
                                        hn::Set(d, 1.0f / 6));)
SMELT_UNARY(HardSigmoidFn,
            return clamp(hn::Add(hn::Mul(x, hn::Set(d, p.a)), hn::Set(d, p.b)), hn::Zero(d), hn::Set(d, 1.0f));)
SMELT_UNARY(ExpFn, return exp_f32(d, x);)
SMELT_UNARY(SigmoidFn, return sigmoid_f32(d, x);)
SMELT_UNARY(SiluFn, return hn::Mul(x, sigmoid_f32(d, hn::Mul(x, hn::Set(d, p.a))));)
SMELT_UNARY(TanhFn, return tanh_f32(d, x);)
SMELT_UNARY(ErfFn, return erf_f32(d, x);)
SMELT_UNARY(GeluFn, return gelu_f32(d, x);)
SMELT_UNARY(GeluTanhFn, return gelu_tanh_f32(d, x);)
SMELT_UNARY(RoundFn, return hn::Round(x);)
SMELT_UNARY(TruncFn, return hn::Trunc(x);)
SMELT_UNARY(SignFn, const V one = hn::Set(d, 1.0f); const V y = hn::IfThenElse(hn::Gt(x, hn::Zero(d)), one, x);
            return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Neg(one), y);)
SMELT_UNARY(SoftsignFn, return hn::Div(x, hn::Add(hn::Set(d, 1.0f), hn::Abs(x)));)
SMELT_UNARY(ThresholdedReluFn, return hn::IfThenElse(hn::Gt(x, hn::Set(d, p.a)), x, hn::Set(d, p.b));)
SMELT_UNARY(LogFn, return log_real(d, x);)
SMELT_UNARY(SinFn, return of_angle(d, x, hn::Sin(d, x), [](float v) { return std::sin(v); });)
SMELT_UNARY(AsinFn, return hn::Asin(d, x);)
SMELT_UNARY(AtanFn, return hn::Atan(d, x);)
SMELT_UNARY(ShrinkFn, const V a = hn::Set(d, p.a), b = hn::Set(d, p.b);
            const V above = hn::IfThenElseZero(hn::Gt(x, a), hn::Sub(x, b));
            return hn::IfThenElse(hn::Lt(x, hn::Neg(a)), hn::Add(x, b), above);)
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
// tanh(ln(1 + e)) for e = e^x is n / (n + 2) for n = e (e + 2), 1 for large x.
SMELT_UNARY(MishFn, const V e = exp_f32(d, hn::Min(x, hn::Set(d, 20.0f))), two = hn::Set(d, 2.0f);
            const V n = hn::Mul(e, hn::Add(e, two)); return hn::Mul(x, hn::Div(n, hn::Add(n, two)));)
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
    case Unary::kAsin:
      return unary_vector<AsinFn>;
    case Unary::kAtan:
      return unary_vector<AtanFn>;
    case Unary::kShrink:
      return unary_vector<ShrinkFn>;
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
