// Element-wise functions and conversions as ATen calls.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/executorch/aten/aten.h"
#include "formats/executorch/writer/call_writer.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

/// Functions that are one call aten::NAME.out(x).
const char* unary_call(Unary fn) {
  switch (fn) {
    case Unary::kAbs:
      return "abs";
    case Unary::kNeg:
      return "neg";
    case Unary::kSign:
      return "sign";
    case Unary::kFloor:
      return "floor";
    case Unary::kCeil:
      return "ceil";
    case Unary::kRound:
      return "round";
    case Unary::kTrunc:
      return "trunc";
    case Unary::kSqrt:
      return "sqrt";
    case Unary::kRsqrt:
      return "rsqrt";
    case Unary::kReciprocal:
      return "reciprocal";
    case Unary::kExp:
      return "exp";
    case Unary::kExpm1:
      return "expm1";
    case Unary::kLog:
      return "log";
    case Unary::kLog1p:
      return "log1p";
    case Unary::kLog2:
      return "log2";
    case Unary::kLog10:
      return "log10";
    case Unary::kSin:
      return "sin";
    case Unary::kCos:
      return "cos";
    case Unary::kTan:
      return "tan";
    case Unary::kAsin:
      return "asin";
    case Unary::kAcos:
      return "acos";
    case Unary::kAtan:
      return "atan";
    case Unary::kSinh:
      return "sinh";
    case Unary::kCosh:
      return "cosh";
    case Unary::kTanh:
    case Unary::kFastTanh:
      return "tanh";
    case Unary::kAsinh:
      return "asinh";
    case Unary::kAcosh:
      return "acosh";
    case Unary::kAtanh:
      return "atanh";
    case Unary::kErf:
      return "erf";
    case Unary::kSigmoid:
      return "sigmoid";
    case Unary::kRelu:
      return "relu";
    case Unary::kIsNan:
      return "isnan";
    case Unary::kBitNot:
      return "bitwise_not";
    case Unary::kNot:
      return "logical_not";
    default:
      return nullptr;
  }
}

/// Other functions of a float tensor.
class CallFormula {
 public:
  CallFormula(CallWriter& w, const UnaryAttrs& a) : w_(w), a_(a) {}
  std::optional<int> apply(int x) {
    if (auto y = activation(x)) return y;
    return formula(x);
  }

 private:
  int d(double v) { return w_.plan().real(v); }
  int n(int like, double v) { return w_.number_like(like, v); }
  static double or_one(double v) { return v == 0 ? 1 : v; }
  int clamp(int x, double lo, double hi) { return w_.clamp(x, lo, hi); }
  /// log(1 + e^x) without overflow.
  int softplus(int x) {
    const int tail = w_.unary("log1p", w_.unary("exp", w_.unary("neg", w_.unary("abs", x))));
    return w_.add(w_.unary("relu", x), tail);
  }

  std::optional<int> activation(int x) {
    switch (a_.fn) {
      case Unary::kRelu6:
        return clamp(x, 0, 6);
      case Unary::kReluN1:
        return clamp(x, -1, 1);
      case Unary::kClamp:
        return clamp(x, a_.a, a_.b);
      case Unary::kLeakyRelu:
        return w_.call("aten::leaky_relu", {x, d(a_.a)});
      case Unary::kElu: {
        const int alpha = d(a_.a), scale = d(or_one(a_.b)), inner = d(or_one(a_.c));
        return w_.call("aten::elu", {x, alpha, scale, inner});
      }
      case Unary::kCelu: {
        const int alpha = d(a_.a), one = d(1), inner = d(1 / a_.a);
        return w_.call("aten::elu", {x, alpha, one, inner});
      }
      case Unary::kSelu: {
        const int alpha = d(a_.a), scale = d(a_.b), one = d(1);
        return w_.call("aten::elu", {x, alpha, scale, one});
      }
      case Unary::kGelu:
        return w_.call("aten::gelu", {x, w_.plan().text("none")});
      case Unary::kGeluTanh:
        return w_.call("aten::gelu", {x, w_.plan().text("tanh")});
      case Unary::kSilu:
      case Unary::kQuickGelu:
        return w_.mul(x, w_.unary("sigmoid", or_one(a_.a) == 1 ? x : w_.mul(x, n(x, a_.a))));
      case Unary::kHardSigmoid:
        return clamp(w_.add({w_.mul(x, n(x, a_.a)), n(x, a_.b)}), 0, 1);
      case Unary::kHardSwish:
        return w_.mul(x, w_.mul({clamp(w_.add(x, n(x, 3)), 0, 6), n(x, 1.0 / 6)}));
      case Unary::kMish:
        return w_.mul(x, w_.unary("tanh", softplus(x)));
      case Unary::kSoftplus: {
        const double beta = or_one(a_.a);
        const int z = beta == 1 ? x : w_.mul(x, n(x, beta));
        const int y = beta == 1 ? softplus(z) : w_.div({softplus(z), n(x, beta)});
        return a_.b > 0 ? w_.select(w_.compare("gt", z, n(x, a_.b)), x, y) : y;
      }
      case Unary::kSoftsign:
        return w_.div(x, w_.add({w_.unary("abs", x), n(x, 1)}));
      case Unary::kLogSigmoid:
        return w_.unary("neg", softplus(w_.unary("neg", x)));
      default:
        return std::nullopt;
    }
  }

  std::optional<int> formula(int x) {
    constexpr double inf = std::numeric_limits<double>::infinity();
    switch (a_.fn) {
      case Unary::kSquare:
        return w_.mul(x, x);
      case Unary::kExp2:
        return w_.unary("exp", w_.mul(x, n(x, std::log(2.0))));
      case Unary::kErfc:
        return w_.sub({n(x, 1), w_.unary("erf", x)});
      case Unary::kRoundHalfAway:
        return rounded_half_away(w_, x);
      case Unary::kThresholdedRelu:
        return w_.select({w_.compare("gt", x, n(x, a_.a)), x, n(x, a_.b)});
      case Unary::kShrink:
        return w_.add({w_.select({w_.compare("lt", x, n(x, -a_.a)), w_.add(x, n(x, a_.b)), n(x, 0)}),
                       w_.select({w_.compare("gt", x, n(x, a_.a)), w_.sub(x, n(x, a_.b)), n(x, 0)})});
      case Unary::kHardShrink:
        return w_.select({w_.compare("le", {w_.unary("abs", x), n(x, a_.a)}), n(x, 0), x});
      case Unary::kSoftShrink:
        return w_.mul({w_.unary("sign", x), w_.unary("relu", w_.sub({w_.unary("abs", x), n(x, a_.a)}))});
      case Unary::kTanhShrink:
        return w_.sub(x, w_.unary("tanh", x));
      case Unary::kLogit: {
        const int p = a_.a < 0 ? x : clamp(x, a_.a, 1 - a_.a);
        return w_.unary("log", w_.div(p, w_.sub(n(x, 1), p)));
      }
      case Unary::kIsInf: {
        const int high = w_.compare("eq", x, n(x, inf)), low = w_.compare("eq", x, n(x, -inf));
        if (a_.a != 0 && a_.b != 0) return w_.binary("logical_or", high, low);
        if (a_.a != 0 || a_.b != 0) return a_.a != 0 ? high : low;
        return w_.binary("logical_and", high, low);
      }
      case Unary::kIsFinite:
        return w_.compare("lt", {w_.unary("abs", x), n(x, inf)});
      default:
        return std::nullopt;
    }
  }

  CallWriter& w_;
  const UnaryAttrs& a_;
};

bool keeps_whole_numbers(Unary fn) {
  return fn == Unary::kFloor || fn == Unary::kCeil || fn == Unary::kRound || fn == Unary::kTrunc ||
         fn == Unary::kRoundHalfAway || fn == Unary::kReal || fn == Unary::kConj;
}

bool same_values(const ValueType& a, const ValueType& b) {
  return a.dtype == b.dtype && same_quant_params(a.quant, b.quant);
}

struct BinaryCall {
  const char* name;
  const char* overload;
};

std::optional<BinaryCall> binary_call(Binary fn) {
  switch (fn) {
    case Binary::kMul:
      return BinaryCall{"mul", "out"};
    case Binary::kPow:
      return BinaryCall{"pow", "Tensor_Tensor_out"};
    case Binary::kMod:
      return BinaryCall{"remainder", "Tensor_out"};
    case Binary::kFmod:
      return BinaryCall{"fmod", "Tensor_out"};
    case Binary::kMin:
      return BinaryCall{"minimum", "out"};
    case Binary::kMax:
      return BinaryCall{"maximum", "out"};
    case Binary::kAtan2:
      return BinaryCall{"atan2", "out"};
    case Binary::kFloorDivMod:
      return BinaryCall{"floor_divide", "out"};
    case Binary::kLogicalAnd:
      return BinaryCall{"logical_and", "out"};
    case Binary::kLogicalOr:
      return BinaryCall{"logical_or", "out"};
    case Binary::kLogicalXor:
      return BinaryCall{"logical_xor", "out"};
    case Binary::kBitAnd:
      return BinaryCall{"bitwise_and", "Tensor_out"};
    case Binary::kBitOr:
      return BinaryCall{"bitwise_or", "Tensor_out"};
    case Binary::kBitXor:
      return BinaryCall{"bitwise_xor", "Tensor_out"};
    case Binary::kShiftLeft:
      return BinaryCall{"bitwise_left_shift", "Tensor_out"};
    case Binary::kShiftRight:
      return BinaryCall{"bitwise_right_shift", "Tensor_out"};
    case Binary::kEqual:
      return BinaryCall{"eq", "Tensor_out"};
    case Binary::kNotEqual:
      return BinaryCall{"ne", "Tensor_out"};
    case Binary::kLess:
      return BinaryCall{"lt", "Tensor_out"};
    case Binary::kLessEqual:
      return BinaryCall{"le", "Tensor_out"};
    case Binary::kGreater:
      return BinaryCall{"gt", "Tensor_out"};
    case Binary::kGreaterEqual:
      return BinaryCall{"ge", "Tensor_out"};
    default:
      return std::nullopt;
  }
}

int divide(CallWriter& w, int a, int b, const char* rounding) {
  const Shape s = broadcast_shape(w.shape(a), w.shape(b));
  if (!rounding) return w.plan().call("aten::div", "out", {a, b}, w.dtype(a), s);
  return w.plan().call("aten::div", "out_mode", {a, b, w.plan().text(rounding)}, w.dtype(a), s);
}

std::optional<int> binary_value(CallWriter& w, const BinaryAttrs& a, int x, int y) {
  const bool real = is_float(w.dtype(x));
  if (a.alpha != 1) y = w.mul(y, w.number_like(y, a.alpha));
  switch (a.fn) {
    case Binary::kAdd:
      return w.add(x, y);
    case Binary::kSub:
      return w.sub(x, y);
    case Binary::kDiv:
      return divide(w, x, y, real ? nullptr : "trunc");
    case Binary::kTruncDiv:
      return divide(w, x, y, "trunc");
    case Binary::kFloorDiv:
      return divide(w, x, y, "floor");
    case Binary::kSquaredDifference: {
      const int d = w.sub(x, y);
      return w.mul(d, d);
    }
    case Binary::kPRelu:
      return w.select({w.compare("lt", x, w.number_like(x, 0)), w.mul(x, y), x});
    case Binary::kHypot: {
      const int xx = w.mul(x, x), yy = w.mul(y, y);
      return w.unary("sqrt", w.add(xx, yy));
    }
    default:
      break;
  }
  const auto call = binary_call(a.fn);
  if (!call) return std::nullopt;
  const Shape s = broadcast_shape(w.shape(x), w.shape(y));
  return w.plan().call(std::string("aten::") + call->name, call->overload, {x, y},
                       gives_bool(a.fn) ? DType::kBool : w.dtype(x), s);
}

}  // namespace

std::optional<int> unary_value(CallWriter& w, const UnaryAttrs& a, int x) {
  if (const char* name = unary_call(a.fn)) return w.unary(name, x);
  return CallFormula(w, a).apply(x);
}

bool call_unary(CallWriter& w) {
  const auto& a = w.attrs<UnaryAttrs>();
  const ValueType &from = w.in_type(0), &to = w.out_type(0);
  if (is_complex(from.dtype)) return false;
  if (a.fn == Unary::kIdentity && same_values(from, to)) return w.out(0, w.in(0));
  const bool whole = !is_float(from.dtype) && !from.quant;
  if (whole && keeps_whole_numbers(a.fn)) return w.out(0, w.in(0));
  const int x = w.real(0);
  if (a.fn == Unary::kIdentity) return w.out(0, x);
  if (const char* name = unary_call(a.fn)) return w.emit(std::string("aten::") + name, {x});
  if (whole && a.fn != Unary::kClamp && a.fn != Unary::kSquare) return false;
  // A formula of several calls rounds once.
  const bool narrow = is_float(w.dtype(x)) && bit_width(w.dtype(x)) < 32;
  const auto y = CallFormula(w, a).apply(narrow ? w.cast(x, DType::kF32) : x);
  return y && w.out(0, narrow ? w.cast(*y, w.dtype(x)) : *y);
}

bool call_binary(CallWriter& w) {
  const auto& a = w.attrs<BinaryAttrs>();
  if (is_complex(w.in_type(0).dtype) || w.in_type(0).dtype == DType::kString) return false;
  const int x = w.real(0);
  const int y = gives_bool(a.fn) ? w.real(1) : w.cast(w.real(1), w.dtype(x));
  const auto value = binary_value(w, a, x, y);
  if (!value) return false;
  const auto z = w.activated(*value, a.act);
  return z && w.out(0, *z);
}

bool call_where(CallWriter& w) {
  const bool raw = same_values(w.in_type(1), w.out_type(0)) && same_values(w.in_type(2), w.out_type(0));
  const int a = raw ? w.in(1) : w.real(1), b = raw ? w.in(2) : w.real(2);
  return w.out(0, w.select(w.in(0), a, b));
}

bool call_clamp(CallWriter& w) {
  int y = w.real(0);
  if (w.has(1)) y = w.binary("maximum", y, w.cast(w.real(1), w.dtype(y)));
  if (w.has(2)) y = w.binary("minimum", y, w.cast(w.real(2), w.dtype(y)));
  return w.out(0, y);
}

bool call_cast(CallWriter& w) {
  const auto& a = w.attrs<CastAttrs>();
  const DType from = w.in_type(0).dtype;
  if (from == DType::kString || a.to == DType::kString || a.round || is_complex(from)) return false;
  int x = w.in(0);
  if (a.clamp && is_float(from) && is_integer(a.to) && bit_width(a.to) < 32) {
    const int lo = w.plan().real(static_cast<double>(int_min(a.to))),
              hi = w.plan().real(static_cast<double>(int_max(a.to)));
    x = w.call("aten::clamp", {x, lo, hi});
  }
  return w.out(0, w.cast(x, a.to));
}

/// Integers with and without parameters are one tensor here.
bool call_bit_cast(CallWriter& w) {
  if (w.in_type(0).dtype != w.out_type(0).dtype) return false;
  w.plan().bind(w.out_id(0), w.in(0));
  return true;
}

bool call_dropout(CallWriter& w) {
  if (w.wants(1) || (w.has(2) && w.number(2).value_or(1) != 0)) return false;
  return w.out(0, w.in(0));
}

}  // namespace smelt::executorch
