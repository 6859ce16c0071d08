// Functions of one variable: builtin operators, or formulas of them.
#include <cmath>
#include <limits>
#include <numbers>

#include "formats/tflite/writer/op_writer.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// A function that is one operator. `integer`: its kernel takes 8-bit quantized values.
struct UnaryCode {
  Unary fn;
  Code code;
  bool integer = false;
};

constexpr UnaryCode kUnaryCodes[] = {{Unary::kAbs, Code::ABS},
                                     {Unary::kNeg, Code::NEG},
                                     {Unary::kSign, Code::SIGN},
                                     {Unary::kFloor, Code::FLOOR},
                                     {Unary::kCeil, Code::CEIL},
                                     {Unary::kRound, Code::ROUND},
                                     {Unary::kSqrt, Code::SQRT},
                                     {Unary::kRsqrt, Code::RSQRT, true},
                                     {Unary::kSquare, Code::SQUARE},
                                     {Unary::kExp, Code::EXP, true},
                                     {Unary::kLog, Code::LOG, true},
                                     {Unary::kSin, Code::SIN},
                                     {Unary::kCos, Code::COS},
                                     {Unary::kTanh, Code::TANH, true},
                                     {Unary::kFastTanh, Code::TANH},
                                     {Unary::kSigmoid, Code::LOGISTIC, true},
                                     {Unary::kRelu, Code::RELU, true},
                                     {Unary::kRelu6, Code::RELU6, true},
                                     {Unary::kReluN1, Code::RELU_N1_TO_1, true},
                                     {Unary::kHardSwish, Code::HARD_SWISH, true},
                                     {Unary::kReal, Code::REAL},
                                     {Unary::kImag, Code::IMAG}};

std::optional<Code> code_of(const UnaryAttrs& a, DType dtype, bool quantized) {
  if (a.fn == Unary::kAbs && is_complex(dtype)) return Code::COMPLEX_ABS;
  for (const UnaryCode& c : kUnaryCodes)
    if (c.fn == a.fn) return quantized && !c.integer ? std::nullopt : std::optional(c.code);
  if (a.fn == Unary::kClamp && a.a == 0 && a.b == 1 && !quantized) return Code::RELU_0_TO_1;
  if (a.fn == Unary::kElu && a.a == 1 && (a.b == 0 || a.b == 1) && (a.c == 0 || a.c == 1)) return Code::ELU;
  if (a.fn == Unary::kGelu || a.fn == Unary::kGeluTanh) return Code::GELU;
  if (a.fn == Unary::kLeakyRelu) return Code::LEAKY_RELU;
  if (a.fn == Unary::kNot && dtype == DType::kBool) return Code::LOGICAL_NOT;
  return std::nullopt;
}

/// True if LiteRT's integer kernels give this type: those of the logistic function and of tanh have one output scale.
bool has_integer_kernel(Unary fn, const ValueType& to) {
  const bool logistic = fn == Unary::kSigmoid;
  if (!logistic && fn != Unary::kTanh && fn != Unary::kFastTanh) return true;
  const bool wide = to.dtype == DType::kI16;
  const int middle = to.dtype == DType::kU8 ? 128 : 0;
  return is_per_tensor(to.quant) &&
         to.quant->scale() == (wide       ? 1.f / 32768
                               : logistic ? 1.f / 256
                                          : 1.f / 128) &&
         to.quant->zero_point() == (logistic && !wide ? middle - 128 : middle);
}

OperatorOptions unary_options(const UnaryAttrs& a) {
  if (a.fn == Unary::kLeakyRelu) {
    const auto alpha = static_cast<float>(a.a);
    return options_of<tfl::LeakyReluOptions>([=](auto& b) { return tfl::CreateLeakyReluOptions(b, alpha); });
  }
  const bool tanh = a.fn == Unary::kGeluTanh;
  if (tanh || a.fn == Unary::kGelu)
    return options_of<tfl::GeluOptions>([=](auto& b) { return tfl::CreateGeluOptions(b, tanh); });
  return {};
}

/// Functions of float32 tensors by their formulas. `n(v)` is a constant.
class UnaryFormula {
 public:
  UnaryFormula(OpWriter& w, const UnaryAttrs& a) : w_(w), a_(a) {}

  std::optional<int> apply(int x) {
    if (auto y = exponential(x)) return y;
    if (auto y = activation(x)) return y;
    return rounding_or_test(x);
  }

 private:
  int n(double v) { return w_.subgraph().f32(v); }
  int f(Code code, int x) { return w_.call(code, {x}); }
  int exp(int x) { return f(Code::EXP, x); }
  int log(int x) { return f(Code::LOG, x); }
  int max(int a, int b) { return w_.binary(Code::MAXIMUM, a, b); }
  int min(int a, int b) { return w_.binary(Code::MINIMUM, a, b); }
  int clamp(int x, double lo, double hi) { return w_.binary(Code::MINIMUM, {max(x, n(lo)), n(hi)}); }
  static double or_one(double v) { return v == 0 ? 1 : v; }
  /// 1 for each element, 0 for NaN. ATAN2 does not broadcast.
  int ones_like(int x) {
    const int any = w_.compare(Code::LESS_EQUAL, {f(Code::ABS, x), n(std::numeric_limits<double>::infinity())});
    return w_.subgraph().cast(any, DType::kF32);
  }
  /// log(1 + e^x) without overflow.
  int softplus(int x) { return w_.add({max(x, n(0)), log(w_.add({exp(f(Code::NEG, f(Code::ABS, x))), n(1)}))}); }
  int expm1(int x) { return f(Code::ELU, min(x, n(0))); }
  /// e^x - 1; ELU has it without loss for negative x.
  int expm1_all(int x) { return w_.select({w_.compare(Code::LESS, x, n(0)), f(Code::ELU, x), w_.sub({exp(x), n(1)})}); }
  /// log(1 + x) without loss near 0: x * log(u) / (u - 1) with u = 1 + x, and x where u is 1.
  int log1p(int x) {
    const int u = w_.add(x, n(1)), d = w_.sub(u, n(1));
    const int zero = w_.compare(Code::EQUAL, d, n(0));
    const int safe = w_.select(zero, w_.add(d, n(1)), d);
    // The quotient corrects small x alone: it is 1 for large ones and undefined for infinite ones.
    const int small = w_.compare(Code::LESS, {f(Code::ABS, x), n(0.5)});
    const int ratio = w_.select({small, w_.div(x, safe), n(1)});
    return w_.select(zero, x, w_.mul(log(u), ratio));
  }
  /// The error function of Abramowitz and Stegun 7.1.26, absolute error 1.5e-7; a series near 0.
  int erf(int x) {
    const int z = f(Code::ABS, x);
    const int t = w_.div({n(1), w_.add({w_.mul(z, n(0.3275911)), n(1)})});
    int p = n(1.061405429);
    for (const double c : {-1.453152027, 1.421413741, -0.284496736, 0.254829592}) p = w_.add({w_.mul(t, p), n(c)});
    const int tail = w_.mul({w_.mul(p, t), exp(f(Code::NEG, w_.mul(z, z)))});
    const int far = w_.mul({f(Code::SIGN, x), w_.sub(n(1), tail)});
    const int xx = w_.mul(x, x);
    int s = n(1.0 / 216);
    for (const double c : {-1.0 / 42, 1.0 / 10, -1.0 / 3, 1.0}) s = w_.add({w_.mul(xx, s), n(c)});
    const int near = w_.mul({w_.mul(x, s), n(2 / std::sqrt(std::numbers::pi))});
    return w_.select(w_.compare(Code::LESS, z, n(0.5)), near, far);
  }

  std::optional<int> exponential(int x) {
    switch (a_.fn) {
      case Unary::kReciprocal:
        return w_.div(n(1), x);
      case Unary::kExpm1:
        return expm1_all(x);
      case Unary::kExp2:
        return exp(w_.mul(x, n(std::numbers::ln2)));
      case Unary::kLog1p:
        return log1p(x);
      case Unary::kLog2:
        return w_.div({log(x), n(std::numbers::ln2)});
      case Unary::kLog10:
        return w_.div({log(x), n(std::numbers::ln10)});
      case Unary::kTan:
        return w_.div({f(Code::SIN, x), f(Code::COS, x)});
      case Unary::kAtan:
        return w_.binary(Code::ATAN2, x, ones_like(x));
      case Unary::kAsin:
        return w_.binary(Code::ATAN2, x, f(Code::SQRT, w_.mul({w_.sub(n(1), x), w_.add(x, n(1))})));
      case Unary::kAcos:
        return w_.binary(Code::ATAN2, f(Code::SQRT, w_.mul({w_.sub(n(1), x), w_.add(x, n(1))})), x);
      case Unary::kSinh: {
        // A series near 0; the sign comes back last.
        const int z = f(Code::ABS, x), small = w_.compare(Code::LESS, z, n(0.5));
        const int zz = w_.mul(z, z);
        int series = n(1.0 / 5040);
        for (const double term : {1.0 / 120, 1.0 / 6, 1.0}) series = w_.add({w_.mul(zz, series), n(term)});
        series = w_.mul(z, series);
        const int far = w_.mul({w_.sub({exp(z), exp(f(Code::NEG, z))}), n(0.5)});
        return w_.mul({f(Code::SIGN, x), w_.select(small, series, far)});
      }
      case Unary::kCosh:
        return w_.mul({w_.add({exp(x), exp(f(Code::NEG, x))}), n(0.5)});
      case Unary::kAsinh: {
        // |x| + x^2 / (1 + sqrt(x^2 + 1)) is what log1p takes; the sign comes back last.
        const int z = f(Code::ABS, x), zz = w_.mul(z, z);
        const int root = w_.add({f(Code::SQRT, w_.add(zz, n(1))), n(1)});
        return w_.mul({f(Code::SIGN, x), log1p(w_.add(z, w_.div(zz, root)))});
      }
      case Unary::kAcosh: {
        // The roots are taken apart: t^2 would overflow.
        const int t = w_.sub(x, n(1));
        return log1p(w_.add(t, w_.mul({f(Code::SQRT, t), f(Code::SQRT, w_.add(t, n(2)))})));
      }
      case Unary::kAtanh: {
        const int high = log1p(x), low = log1p(f(Code::NEG, x));
        return w_.mul({w_.sub(high, low), n(0.5)});
      }
      case Unary::kErf:
        return erf(x);
      case Unary::kErfc:
        return w_.sub({n(1), erf(x)});
      default:
        return std::nullopt;
    }
  }

  std::optional<int> activation(int x) {
    switch (a_.fn) {
      case Unary::kLogSigmoid:
        return f(Code::NEG, softplus(f(Code::NEG, x)));
      case Unary::kClamp:
        return clamp(x, a_.a, a_.b);
      case Unary::kElu: {
        const double scale = or_one(a_.b), inner = or_one(a_.c);
        const int low = w_.mul({expm1(inner == 1 ? x : w_.mul(x, n(inner))), n(scale * a_.a)});
        const int high = max(x, n(0));
        return w_.add(scale == 1 ? high : w_.mul(high, n(scale)), low);
      }
      case Unary::kCelu:
        return w_.add({max(x, n(0)), w_.mul({expm1(w_.div(x, n(a_.a))), n(a_.a)})});
      case Unary::kSelu:
        return w_.add({w_.mul({max(x, n(0)), n(a_.b)}), w_.mul({expm1(x), n(a_.a * a_.b)})});
      case Unary::kSilu:
      case Unary::kQuickGelu:
        return w_.mul(x, f(Code::LOGISTIC, or_one(a_.a) == 1 ? x : w_.mul(x, n(a_.a))));
      case Unary::kMish:
        return w_.mul(x, f(Code::TANH, softplus(x)));
      case Unary::kHardSigmoid:
        return clamp(w_.add({w_.mul(x, n(a_.a)), n(a_.b)}), 0, 1);
      case Unary::kSoftplus: {
        const double beta = or_one(a_.a);
        const int z = beta == 1 ? x : w_.mul(x, n(beta));
        const int y = beta == 1 ? softplus(z) : w_.div({softplus(z), n(beta)});
        return a_.b > 0 ? w_.select(w_.compare(Code::GREATER, z, n(a_.b)), x, y) : y;
      }
      case Unary::kSoftsign:
        return w_.div(x, w_.add({f(Code::ABS, x), n(1)}));
      case Unary::kThresholdedRelu:
        return w_.select({w_.compare(Code::GREATER, x, n(a_.a)), x, n(a_.b)});
      case Unary::kShrink:
        return w_.add({w_.select({w_.compare(Code::LESS, x, n(-a_.a)), w_.add(x, n(a_.b)), n(0)}),
                       w_.select({w_.compare(Code::GREATER, x, n(a_.a)), w_.sub(x, n(a_.b)), n(0)})});
      case Unary::kHardShrink:
        return w_.select({w_.compare(Code::LESS_EQUAL, {f(Code::ABS, x), n(a_.a)}), n(0), x});
      case Unary::kSoftShrink:
        return w_.mul({f(Code::SIGN, x), w_.binary(Code::MAXIMUM, {w_.sub({f(Code::ABS, x), n(a_.a)}), n(0)})});
      case Unary::kTanhShrink:
        return w_.sub(x, f(Code::TANH, x));
      case Unary::kLogit: {
        const int p = a_.a < 0 ? x : clamp(x, a_.a, 1 - a_.a);
        return log(w_.div(p, w_.sub(n(1), p)));
      }
      default:
        return std::nullopt;
    }
  }

  std::optional<int> rounding_or_test(int x) {
    const auto toward_zero = [&](int magnitude) { return w_.mul({f(Code::SIGN, x), f(Code::FLOOR, magnitude)}); };
    switch (a_.fn) {
      case Unary::kTrunc:
        return toward_zero(f(Code::ABS, x));
      case Unary::kRoundHalfAway:
        return toward_zero(w_.add({f(Code::ABS, x), n(0.5)}));
      case Unary::kIsNan:
        return w_.compare(Code::NOT_EQUAL, x, x);
      case Unary::kIsInf: {
        const double inf = std::numeric_limits<double>::infinity();
        const int high = w_.compare(Code::EQUAL, x, n(inf)), low = w_.compare(Code::EQUAL, x, n(-inf));
        if (a_.a != 0 && a_.b != 0) return w_.binary(Code::LOGICAL_OR, high, low);
        if (a_.a != 0 || a_.b != 0) return a_.a != 0 ? high : low;
        return w_.binary(Code::LOGICAL_AND, high, low);
      }
      case Unary::kIsFinite:
        return w_.compare(Code::LESS, {f(Code::ABS, x), n(std::numeric_limits<double>::infinity())});
      default:
        return std::nullopt;
    }
  }

  OpWriter& w_;
  const UnaryAttrs& a_;
};

/// Functions of unquantized integers and bools that are no operator of their own.
std::optional<int> integer_formula(OpWriter& w, const UnaryAttrs& a, int x) {
  const DType dtype = w.file_dtype(x);
  switch (a.fn) {
    case Unary::kClamp:
      return w.binary(Code::MINIMUM, {w.binary(Code::MAXIMUM, x, w.number_like(x, a.a)), w.number_like(x, a.b)});
    case Unary::kNot:
      return w.compare(Code::EQUAL, x, w.number_like(x, 0));
    case Unary::kBitNot:
      if (dtype == DType::kBool) return w.call(Code::LOGICAL_NOT, {x});
      return w.binary(Code::BITWISE_XOR, x,
                      w.number_like(x, is_signed_integer(dtype) ? -1.0 : std::ldexp(1.0, bit_width(dtype)) - 1));
    default:
      return std::nullopt;
  }
}

/// Functions that leave integers as they are.
bool keeps_integers(Unary fn) {
  switch (fn) {
    case Unary::kIdentity:
    case Unary::kConj:
    case Unary::kReal:
    case Unary::kFloor:
    case Unary::kCeil:
    case Unary::kRound:
    case Unary::kRoundHalfAway:
    case Unary::kTrunc:
      return true;
    default:
      return false;
  }
}

}  // namespace

bool write_unary(OpWriter& w) {
  const auto& a = w.attrs<UnaryAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &from = w.in_type(0), &to = w.out_type(0);
  const bool last = s.is_channels_last(w.id(0));
  int x = last ? w.in_last(0) : w.in(0);
  const auto finish = [&](int y) {
    last ? w.out_last(0, y) : w.out(0, y);
    return true;
  };
  const bool real = is_float(from.dtype) || from.quant;
  if (a.fn == Unary::kIdentity && same_type(from, to)) return finish(x);
  if (!real && !is_complex(from.dtype) && keeps_integers(a.fn)) return finish(x);
  const bool quantized = from.quant && to.quant;
  const bool kept = !quantized || s.file().module.format == "tflite" || has_integer_kernel(a.fn, to);
  if (!from.quant == !to.quant && kept)
    if (const auto code = code_of(a, from.dtype, quantized)) {
      const auto [dtype, quant] = s.file_type(to);
      return finish(s.add(*code, {x}, dtype, unary_options(a), quant));
    }
  if (!real) {
    if (from.dtype != DType::kBool && !is_integer(from.dtype)) return false;
    const auto y = integer_formula(w, a, x);
    return y && finish(*y);
  }
  x = s.dequantize(x);
  UnaryAttrs real_attrs = a;
  if (const auto code = code_of(real_attrs, DType::kF32, false))
    return finish(s.add(*code, {x}, DType::kF32, unary_options(a)));
  if (a.fn == Unary::kIdentity) return finish(x);
  const auto y = UnaryFormula(w, a).apply(x);
  return y && finish(*y);
}

}  // namespace smelt::tflite
