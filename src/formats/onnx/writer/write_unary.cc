// Functions of one variable.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "formats/onnx/writer/write_elementwise.h"

namespace smelt::onnx {
namespace {

struct Direct {
  Unary fn;
  const char* op;
};
constexpr Direct kDirect[] = {{Unary::kAbs, "Abs"},           {Unary::kNeg, "Neg"},
                              {Unary::kSign, "Sign"},         {Unary::kFloor, "Floor"},
                              {Unary::kCeil, "Ceil"},         {Unary::kRound, "Round"},
                              {Unary::kSqrt, "Sqrt"},         {Unary::kReciprocal, "Reciprocal"},
                              {Unary::kExp, "Exp"},           {Unary::kLog, "Log"},
                              {Unary::kSin, "Sin"},           {Unary::kCos, "Cos"},
                              {Unary::kTan, "Tan"},           {Unary::kAsin, "Asin"},
                              {Unary::kAcos, "Acos"},         {Unary::kAtan, "Atan"},
                              {Unary::kSinh, "Sinh"},         {Unary::kCosh, "Cosh"},
                              {Unary::kTanh, "Tanh"},         {Unary::kFastTanh, "Tanh"},
                              {Unary::kAsinh, "Asinh"},       {Unary::kAcosh, "Acosh"},
                              {Unary::kAtanh, "Atanh"},       {Unary::kErf, "Erf"},
                              {Unary::kSigmoid, "Sigmoid"},   {Unary::kRelu, "Relu"},
                              {Unary::kSoftsign, "Softsign"}, {Unary::kBitNot, "BitwiseNot"},
                              {Unary::kIsNan, "IsNaN"}};

/// Builds the ONNX form of one function of x.
class UnaryForm {
 public:
  UnaryForm(NodeWriter& n, const UnaryAttrs& a, Name x, DType dtype) : n_(n), a_(a), x_(x), dtype_(dtype) {}

  /// kNoName: the function has no form.
  Name write() {
    for (const Direct& d : kDirect)
      if (d.fn == a_.fn) return n_.op(d.op, {x_});
    if (const Name y = with_attributes(); y != kNoName) return y;
    if (const Name y = power_or_log(); y != kNoName) return y;
    if (const Name y = activation(); y != kNoName) return y;
    return rest();
  }

 private:
  Name s(double v) { return n_.scalar(dtype_, v); }
  Name op(const char* name, Name a, Name b) { return n_.op(name, {a, b}); }
  Name op(const char* name, Name a) { return n_.op(name, {a}); }
  static double or_one(double v) { return v == 0 ? 1 : v; }

  /// ONNX's operators with parameters.
  Name with_attributes() {
    const double inf = std::numeric_limits<double>::infinity();
    switch (a_.fn) {
      case Unary::kLeakyRelu:
        return n_.op("LeakyRelu", {x_}, {{"alpha", a_.a}});
      case Unary::kElu:
        if (or_one(a_.b) != 1 || or_one(a_.c) != 1) return kNoName;
        return n_.op("Elu", {x_}, {{"alpha", a_.a}});
      case Unary::kCelu:
        return n_.op("Celu", {x_}, {{"alpha", a_.a}});
      case Unary::kSelu:
        return n_.op("Selu", {x_}, {{"alpha", a_.a}, {"gamma", a_.b}});
      case Unary::kHardSigmoid:
        return n_.op("HardSigmoid", {x_}, {{"alpha", a_.a}, {"beta", a_.b}});
      case Unary::kThresholdedRelu:
        if (a_.b == 0) return n_.op("ThresholdedRelu", {x_}, {{"alpha", a_.a}});
        return n_.op("Where", {op("Greater", x_, s(a_.a)), x_, s(a_.b)});
      case Unary::kShrink:
        return n_.op("Shrink", {x_}, {{"lambd", a_.a}, {"bias", a_.b}});
      case Unary::kHardShrink:
        return n_.op("Shrink", {x_}, {{"lambd", a_.a}, {"bias", 0.0}});
      case Unary::kSoftShrink:
        return n_.op("Shrink", {x_}, {{"lambd", a_.a}, {"bias", a_.a}});
      case Unary::kRelu6:
        return n_.clip(x_, dtype_, 0, 6);
      case Unary::kReluN1:
        return n_.clip(x_, dtype_, -1, 1);
      case Unary::kClamp: {
        const bool integer = is_integer(dtype_);
        const double lo = integer ? std::max(std::ceil(a_.a), static_cast<double>(int_min(dtype_))) : a_.a;
        const double hi = integer ? std::min(std::floor(a_.b), static_cast<double>(int_max(dtype_))) : a_.b;
        return n_.clip(x_, dtype_, lo, integer && hi >= 9.2e18 ? inf : hi);
      }
      case Unary::kIsInf:
        return n_.op("IsInf", {x_}, {{"detect_positive", a_.a != 0}, {"detect_negative", a_.b != 0}});
      default:
        return kNoName;
    }
  }

  Name power_or_log() {
    switch (a_.fn) {
      case Unary::kRsqrt:
        return op("Reciprocal", op("Sqrt", x_));
      case Unary::kSquare:
        return op("Mul", x_, x_);
      case Unary::kExpm1:
        return n_.op("Sub", {op("Exp", x_), s(1)});
      case Unary::kExp2:
        return op("Pow", s(2), x_);
      case Unary::kLog1p:
        return op("Log", op("Add", x_, s(1)));
      case Unary::kLog2:
        return n_.op("Mul", {op("Log", x_), s(1 / std::numbers::ln2)});
      case Unary::kLog10:
        return n_.op("Mul", {op("Log", x_), s(1 / std::numbers::ln10)});
      case Unary::kErfc:
        return n_.op("Sub", {s(1), op("Erf", x_)});
      case Unary::kLogit: {
        Name x = x_;
        if (a_.a >= 0) x = n_.clip(x, dtype_, a_.a, 1 - a_.a);
        return op("Log", op("Div", x, op("Sub", s(1), x)));
      }
      default:
        return kNoName;
    }
  }

  Name gelu() {
    if (n_.model().need_opset(20)) return op("Gelu", x_);
    const Name half = op("Mul", x_, s(0.5));
    return op("Mul", half, n_.op("Add", {op("Erf", op("Mul", x_, s(std::numbers::sqrt2 / 2))), s(1)}));
  }

  Name gelu_tanh() {
    if (n_.model().need_opset(20)) return n_.op("Gelu", {x_}, {{"approximate", "tanh"}});
    const Name cube = op("Mul", op("Mul", x_, x_), x_);
    const Name inner = op("Add", x_, op("Mul", cube, s(0.044715)));
    const Name t = op("Tanh", op("Mul", inner, s(std::sqrt(2 / std::numbers::pi))));
    return n_.op("Mul", {op("Mul", x_, s(0.5)), op("Add", t, s(1))});
  }

  Name softplus() {
    const double beta = or_one(a_.a);
    const Name scaled = beta == 1 ? x_ : op("Mul", x_, s(beta));
    Name y = op("Softplus", scaled);
    if (beta != 1) y = op("Div", y, s(beta));
    return a_.b > 0 ? n_.op("Where", {op("Greater", scaled, s(a_.b)), x_, y}) : y;
  }

  Name activation() {
    switch (a_.fn) {
      case Unary::kGelu:
        return gelu();
      case Unary::kGeluTanh:
        return gelu_tanh();
      case Unary::kQuickGelu:
      case Unary::kSilu: {
        const double alpha = or_one(a_.a);
        return op("Mul", x_, op("Sigmoid", alpha == 1 ? x_ : op("Mul", x_, s(alpha))));
      }
      case Unary::kMish:
        if (n_.model().need_opset(18)) return op("Mish", x_);
        return op("Mul", x_, op("Tanh", op("Softplus", x_)));
      case Unary::kHardSwish:
        if (n_.model().need_opset(14)) return op("HardSwish", x_);
        return op("Mul", x_, n_.op("HardSigmoid", {x_}, {{"alpha", 1.0 / 6}, {"beta", 0.5}}));
      case Unary::kSoftplus:
        return softplus();
      case Unary::kLogSigmoid:
        return op("Neg", op("Softplus", op("Neg", x_)));
      case Unary::kTanhShrink:
        return op("Sub", x_, op("Tanh", x_));
      case Unary::kElu: {
        const double outer = or_one(a_.b) * a_.a;
        const Name low = n_.op("Mul", {n_.op("Sub", {op("Exp", op("Mul", x_, s(or_one(a_.c)))), s(1)}), s(outer)});
        return n_.op("Where", {op("LessOrEqual", x_, s(0)), low, op("Mul", x_, s(or_one(a_.b)))});
      }
      default:
        return kNoName;
    }
  }

  Name rest() {
    switch (a_.fn) {
      case Unary::kIdentity:
      case Unary::kReal:
      case Unary::kConj:
        return x_;
      case Unary::kRoundHalfAway:
        return round_half_away(n_, x_, dtype_);
      case Unary::kTrunc:
        return n_.op("Mul", {op("Sign", x_), op("Floor", op("Abs", x_))});
      case Unary::kNot:
        return dtype_ == DType::kBool ? op("Not", x_) : op("Equal", x_, s(0));
      case Unary::kIsFinite:
        return op("Not", n_.op("Or", {op("IsNaN", x_), op("IsInf", x_)}));
      default:
        return kNoName;
    }
  }

  NodeWriter& n_;
  const UnaryAttrs& a_;
  Name x_;
  DType dtype_;
};

/// Functions that ONNX has for integers, or that are made of such.
bool takes_integers(Unary fn) {
  constexpr Unary kIntegers[] = {Unary::kAbs,    Unary::kNeg,    Unary::kSign,  Unary::kRelu,     Unary::kRelu6,
                                 Unary::kReluN1, Unary::kClamp,  Unary::kNot,   Unary::kIdentity, Unary::kReal,
                                 Unary::kConj,   Unary::kBitNot, Unary::kSquare};
  return std::ranges::find(kIntegers, fn) != std::end(kIntegers);
}

Name integer_unary(NodeWriter& n, const UnaryAttrs& a, Name x, DType dtype) {
  constexpr Unary kUnchanged[] = {Unary::kFloor, Unary::kCeil, Unary::kRound, Unary::kRoundHalfAway, Unary::kTrunc};
  if (std::ranges::find(kUnchanged, a.fn) != std::end(kUnchanged)) return x;
  if (a.fn == Unary::kNeg && !is_signed_integer(dtype)) return n.op("Sub", {n.scalar(dtype, 0), x});
  if (takes_integers(a.fn)) return UnaryForm(n, a, x, dtype).write();
  const Name y = UnaryForm(n, a, n.cast(x, DType::kF32), DType::kF32).write();
  return y == kNoName || n.real_out_dtype(0) == DType::kBool ? y : n.cast(y, dtype);
}

}  // namespace

Name unary_form(NodeWriter& n, const UnaryAttrs& a, Name x, DType dtype) {
  if (is_complex(dtype)) return kNoName;
  return is_integer(dtype) ? integer_unary(n, a, x, dtype) : UnaryForm(n, a, x, dtype).write();
}

void write_unary(NodeWriter& n) {
  const auto& a = n.attrs<UnaryAttrs>();
  const Order order = order_at_hand(n);
  if (a.fn == Unary::kIdentity && n.dtype(0) == n.out_type(0).dtype &&
      same_quant_params(n.type(0).quant, n.out_type(0).quant))
    return n.bind_raw(0, n.raw(0, order), order);
  Name y = kNoName;
  if (n.dtype(0) == DType::kBool && a.fn == Unary::kBitNot)
    y = n.op("Not", {n.in(0, order)});
  else
    y = unary_form(n, a, n.in(0, order), n.real_dtype(0));
  if (y == kNoName) return n.fail("no form for ", to_string(a.fn), " of ", to_string(n.real_dtype(0)));
  n.bind(0, y, order);
}

}  // namespace smelt::onnx
