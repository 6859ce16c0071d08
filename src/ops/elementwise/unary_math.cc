#include "ops/elementwise/unary_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace smelt {
namespace {

template <class T>
T sigmoid(T x) {
  if (x >= 0) return T(1) / (T(1) + std::exp(-x));
  const T e = std::exp(x);
  return e / (T(1) + e);
}

template <class T>
T or_one(T parameter) {
  return parameter == 0 ? T(1) : parameter;
}

template <class T>
T softplus(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}

template <class T>
T gelu_tanh(T x) {
  constexpr T k = T(0.7978845608028654);  // sqrt(2 / pi)
  return T(0.5) * x * (T(1) + std::tanh(k * (x + T(0.044715) * x * x * x)));
}

}  // namespace

double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  double result = 0;
  if (x < 0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    double whole;
    const double fraction = std::modf(x, &whole);
    result = -std::numbers::pi / std::tan(std::numbers::pi * fraction);
    x = 1 - x;
  }
  for (; x < 10; x += 1) result -= 1 / x;
  const double inv = 1 / (x * x);
  // Asymptotic series with the Bernoulli numbers.
  const double series =
      inv * (1.0 / 12 - inv * (1.0 / 120 - inv * (1.0 / 252 - inv * (1.0 / 240 - inv * (1.0 / 132)))));
  return result + std::log(x) - 0.5 / x - series;
}

template <class T>
T unary_real(const UnaryAttrs& attrs, T x) {
  const T a = static_cast<T>(attrs.a), b = static_cast<T>(attrs.b);
  switch (attrs.fn) {
    case Unary::kIdentity:
    case Unary::kReal:
    case Unary::kConj:
      return x;
    case Unary::kImag:
      return 0;
    case Unary::kAngle:
      return x != x ? x : (x < 0 ? std::numbers::pi_v<T> : T(0));
    case Unary::kAbs:
      return std::abs(x);
    case Unary::kNeg:
      return -x;
    case Unary::kSign:
      return x > 0 ? T(1) : (x < 0 ? T(-1) : x);
    case Unary::kFloor:
      return std::floor(x);
    case Unary::kCeil:
      return std::ceil(x);
    case Unary::kRound:
      return std::nearbyint(x);
    case Unary::kRoundHalfAway:
      return std::round(x);
    case Unary::kTrunc:
      return std::trunc(x);
    case Unary::kSqrt:
      return std::sqrt(x);
    case Unary::kRsqrt:
      return T(1) / std::sqrt(x);
    case Unary::kReciprocal:
      return T(1) / x;
    case Unary::kSquare:
      return x * x;
    case Unary::kExp:
      return std::exp(x);
    case Unary::kExpm1:
      return std::expm1(x);
    case Unary::kExp2:
      return std::exp2(x);
    case Unary::kLog:
      return std::log(x);
    case Unary::kLog1p:
      return std::log1p(x);
    case Unary::kLog2:
      return std::log2(x);
    case Unary::kLog10:
      return std::log10(x);
    case Unary::kSin:
      return std::sin(x);
    case Unary::kCos:
      return std::cos(x);
    case Unary::kTan:
      return std::tan(x);
    case Unary::kAsin:
      return std::asin(x);
    case Unary::kAcos:
      return std::acos(x);
    case Unary::kAtan:
      return std::atan(x);
    case Unary::kSinh:
      return std::sinh(x);
    case Unary::kCosh:
      return std::cosh(x);
    case Unary::kTanh:
    case Unary::kFastTanh:
      return std::tanh(x);
    case Unary::kAsinh:
      return std::asinh(x);
    case Unary::kAcosh:
      return std::acosh(x);
    case Unary::kAtanh:
      return std::atanh(x);
    case Unary::kErf:
      return std::erf(x);
    case Unary::kErfc:
      return std::erfc(x);
    case Unary::kGamma:
      return std::tgamma(x);
    case Unary::kLgamma:
      return std::lgamma(x);
    case Unary::kDigamma:
      return static_cast<T>(digamma(x));
    case Unary::kSigmoid:
      return sigmoid(x);
    case Unary::kLogSigmoid:
      return -softplus(-x);
    case Unary::kRelu:
      return x < 0 ? T(0) : x;
    case Unary::kRelu6:
      return x < 0 ? T(0) : (x > 6 ? T(6) : x);
    case Unary::kReluN1:
      return x < -1 ? T(-1) : (x > 1 ? T(1) : x);
    case Unary::kClamp: {
      const T low = x < a ? a : x;
      return low > b ? b : low;
    }
    case Unary::kLeakyRelu:
      return x < 0 ? a * x : x;
    case Unary::kElu:
      return x <= 0 ? or_one(b) * a * std::expm1(or_one(static_cast<T>(attrs.c)) * x) : or_one(b) * x;
    case Unary::kCelu:
      return x > 0 ? x : a * std::expm1(x / a);
    case Unary::kSelu:
      return x <= 0 ? b * a * std::expm1(x) : b * x;
    case Unary::kGelu:
      return T(0.5) * x * (T(1) + std::erf(x * std::numbers::sqrt2_v<T> / T(2)));
    case Unary::kGeluTanh:
      return gelu_tanh(x);
    case Unary::kQuickGelu:
    case Unary::kSilu:
      return x * sigmoid(or_one(a) * x);
    case Unary::kMish:
      return x * std::tanh(softplus(x));
    case Unary::kHardSigmoid: {
      const T y = a * x + b;
      return y < 0 ? T(0) : (y > 1 ? T(1) : y);
    }
    case Unary::kHardSwish:
      return x * std::min(T(6), std::max(T(0), x + T(3))) / T(6);
    case Unary::kSoftplus:
      if (b > 0 && or_one(a) * x > b) return x;
      return softplus(or_one(a) * x) / or_one(a);
    case Unary::kSoftsign:
      return x / (T(1) + std::abs(x));
    case Unary::kThresholdedRelu:
      return x > a ? x : b;
    case Unary::kShrink:
      return x < -a ? x + b : (x > a ? x - b : T(0));
    case Unary::kHardShrink:
      return x >= -a && x <= a ? T(0) : x;
    case Unary::kSoftShrink:
      return x > a ? x - a : (x < -a ? x + a : x * T(0));
    case Unary::kTanhShrink:
      return x - std::tanh(x);
    case Unary::kLogit: {
      const T z = a < 0 ? x : (x < a ? a : (x > T(1) - a ? T(1) - a : x));
      return std::log(z / (T(1) - z));
    }
    case Unary::kNot:
      return x == 0;
    case Unary::kBitNot:
      return x;
    case Unary::kIsNan:
      return x != x;
    case Unary::kIsInf:
      return std::isinf(x) && (x > 0 ? a != 0 : b != 0);
    case Unary::kIsFinite:
      return std::isfinite(x);
    case Unary::kCount:
      break;
  }
  return x;
}

template float unary_real<float>(const UnaryAttrs&, float);
template double unary_real<double>(const UnaryAttrs&, double);

int64_t unary_int(const UnaryAttrs& attrs, int64_t x) {
  const auto wrap_mul = [](int64_t p, int64_t q) {
    return static_cast<int64_t>(static_cast<uint64_t>(p) * static_cast<uint64_t>(q));
  };
  switch (attrs.fn) {
    case Unary::kIdentity:
    case Unary::kFloor:
    case Unary::kCeil:
    case Unary::kRound:
    case Unary::kRoundHalfAway:
    case Unary::kTrunc:
    case Unary::kReal:
    case Unary::kConj:
      return x;
    case Unary::kImag:
    case Unary::kIsNan:
    case Unary::kIsInf:
      return 0;
    case Unary::kIsFinite:
      return 1;
    case Unary::kAbs:
      return x < 0 ? wrap_mul(x, -1) : x;
    case Unary::kNeg:
      return wrap_mul(x, -1);
    case Unary::kSign:
      return (x > 0) - (x < 0);
    case Unary::kSquare:
      return wrap_mul(x, x);
    case Unary::kRelu:
      return std::max<int64_t>(x, 0);
    case Unary::kRelu6:
      return std::clamp<int64_t>(x, 0, 6);
    case Unary::kReluN1:
      return std::clamp<int64_t>(x, -1, 1);
    case Unary::kClamp: {
      // Bounds beyond int64 do not bind; between them every double converts exactly.
      if (attrs.a > -9.2e18 && static_cast<double>(x) < attrs.a)
        x = static_cast<int64_t>(std::ceil(std::min(attrs.a, 9.2e18)));
      if (attrs.b < 9.2e18 && static_cast<double>(x) > attrs.b)
        x = static_cast<int64_t>(std::floor(std::max(attrs.b, -9.2e18)));
      return x;
    }
    case Unary::kNot:
      return x == 0;
    case Unary::kBitNot:
      return ~x;
    default: {
      const double y = unary_real<double>(attrs, static_cast<double>(x));
      if (!(y == y)) return 0;
      if (y >= 9223372036854775807.0) return INT64_MAX;
      if (y <= -9223372036854775808.0) return INT64_MIN;
      return static_cast<int64_t>(y);
    }
  }
}

bool unary_complex(Unary fn, std::complex<double> x, std::complex<double>& y) {
  switch (fn) {
    case Unary::kIdentity:
      y = x;
      return true;
    case Unary::kAbs:
      y = std::abs(x);
      return true;
    case Unary::kNeg:
      y = -x;
      return true;
    case Unary::kSign:
      y = x == 0.0 ? 0.0 : x / std::abs(x);
      return true;
    case Unary::kSqrt:
      y = std::sqrt(x);
      return true;
    case Unary::kRsqrt:
      y = 1.0 / std::sqrt(x);
      return true;
    case Unary::kReciprocal:
      y = 1.0 / x;
      return true;
    case Unary::kSquare:
      y = x * x;
      return true;
    case Unary::kExp:
      y = std::exp(x);
      return true;
    case Unary::kExpm1:
      y = std::exp(x) - 1.0;
      return true;
    case Unary::kLog:
      y = std::log(x);
      return true;
    case Unary::kLog1p:
      y = std::log(1.0 + x);
      return true;
    case Unary::kLog2:
      y = std::log(x) / std::numbers::ln2;
      return true;
    case Unary::kLog10:
      y = std::log10(x);
      return true;
    case Unary::kSin:
      y = std::sin(x);
      return true;
    case Unary::kCos:
      y = std::cos(x);
      return true;
    case Unary::kTan:
      y = std::tan(x);
      return true;
    case Unary::kAsin:
      y = std::asin(x);
      return true;
    case Unary::kAcos:
      y = std::acos(x);
      return true;
    case Unary::kAtan:
      y = std::atan(x);
      return true;
    case Unary::kSinh:
      y = std::sinh(x);
      return true;
    case Unary::kCosh:
      y = std::cosh(x);
      return true;
    case Unary::kTanh:
      y = std::tanh(x);
      return true;
    case Unary::kAsinh:
      y = std::asinh(x);
      return true;
    case Unary::kAcosh:
      y = std::acosh(x);
      return true;
    case Unary::kAtanh:
      y = std::atanh(x);
      return true;
    case Unary::kSigmoid:
      y = 1.0 / (1.0 + std::exp(-x));
      return true;
    case Unary::kReal:
      y = x.real();
      return true;
    case Unary::kImag:
      y = x.imag();
      return true;
    case Unary::kConj:
      y = std::conj(x);
      return true;
    case Unary::kAngle:
      y = std::arg(x);
      return true;
    case Unary::kNot:
      y = x == 0.0 ? 1.0 : 0.0;
      return true;
    case Unary::kIsNan:
      y = std::isnan(x.real()) || std::isnan(x.imag()) ? 1.0 : 0.0;
      return true;
    case Unary::kIsInf:
      y = std::isinf(x.real()) || std::isinf(x.imag()) ? 1.0 : 0.0;
      return true;
    case Unary::kIsFinite:
      y = std::isfinite(x.real()) && std::isfinite(x.imag()) ? 1.0 : 0.0;
      return true;
    default:
      return false;
  }
}

bool gives_bool(Unary fn) {
  return fn == Unary::kNot || fn == Unary::kIsNan || fn == Unary::kIsInf || fn == Unary::kIsFinite;
}

}  // namespace smelt
