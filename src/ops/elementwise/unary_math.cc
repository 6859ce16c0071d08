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

template <class T>
T logit(T x) {
  return std::log(x / (T(1) - x));
}

/// min(max(x, low), high); NaN stays.
template <class T>
T clamped(T x, T low, T high) {
  const T y = x < low ? low : x;
  return y > high ? high : y;
}

/// Bounds beyond int64 do not bind; between them every double converts exactly.
int64_t clamped_integer(int64_t x, double low, double high) {
  if (low > -9.2e18 && static_cast<double>(x) < low) x = static_cast<int64_t>(std::ceil(std::min(low, 9.2e18)));
  if (high < 9.2e18 && static_cast<double>(x) > high) x = static_cast<int64_t>(std::floor(std::max(high, -9.2e18)));
  return x;
}

int64_t negated(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }
int64_t squared(int64_t x) { return static_cast<int64_t>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x)); }

constexpr std::nullopt_t undefined = std::nullopt;

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
  const T a = static_cast<T>(attrs.a), b = static_cast<T>(attrs.b), c = static_cast<T>(attrs.c);
  switch (attrs.fn) {
#define SMELT_UNARY(name, text, real, integer, complex) \
  case Unary::k##name:                                  \
    return real;
#include "ops/elementwise/unary_functions.inc"
#undef SMELT_UNARY
    case Unary::kCount:
      break;
  }
  return x;
}
template float unary_real<float>(const UnaryAttrs&, float);
template double unary_real<double>(const UnaryAttrs&, double);

int64_t unary_int(const UnaryAttrs& attrs, int64_t x) {
  const auto as_real = [&]() -> int64_t {
    const double y = unary_real<double>(attrs, static_cast<double>(x));
    if (!(y == y)) return 0;
    if (y >= 9223372036854775807.0) return INT64_MAX;
    if (y <= -9223372036854775808.0) return INT64_MIN;
    return static_cast<int64_t>(y);
  };
  switch (attrs.fn) {
#define SMELT_UNARY(name, text, real, integer, complex) \
  case Unary::k##name:                                  \
    return integer;
#include "ops/elementwise/unary_functions.inc"
#undef SMELT_UNARY
    case Unary::kCount:
      break;
  }
  return x;
}

std::optional<std::complex<double>> unary_complex(Unary fn, std::complex<double> x) {
  switch (fn) {
#define SMELT_UNARY(name, text, real, integer, complex) \
  case Unary::k##name:                                  \
    return complex;
#include "ops/elementwise/unary_functions.inc"
#undef SMELT_UNARY
    case Unary::kCount:
      break;
  }
  return std::nullopt;
}

bool gives_bool(Unary fn) {
  return fn == Unary::kNot || fn == Unary::kIsNan || fn == Unary::kIsInf || fn == Unary::kIsFinite;
}

}  // namespace smelt
