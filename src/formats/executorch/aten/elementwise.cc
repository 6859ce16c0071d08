// Element-wise operators: PyTorch's promotion, integer division modes and comparisons.
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

using Operand = L::Operand;

/// fn(a, b) in the promoted type. `real`: integers become float32 first.
ValueId arithmetic(L& l, Binary fn, Operand a, Operand bb, double alpha = 1, bool real = false) {
  const std::array<Operand, 2> both{a, bb};
  DType result = l.result_type(both);
  if (real && !is_float(result) && !is_complex(result)) result = DType::kF32;
  const DType compute = l.compute_type(result, both);
  return l.cast(l.binary(fn, l.as(a, compute), l.as(bb, compute), alpha), result);
}

template <Binary fn>
void promoted(L& l) {
  l.result(arithmetic(l, fn, l.operand(0), l.operand(1)));
}
template <Binary fn>
void promoted_real(L& l) {
  l.result(arithmetic(l, fn, l.operand(0), l.operand(1), 1, true));
}

/// a + alpha b in the promoted type; bool with bool adds as logical or.
ValueId add_scaled(L& l, Binary fn, Operand a, Operand bb, size_t alpha_at) {
  const std::array<Operand, 2> both{a, bb};
  const DType result = l.result_type(both);
  const double alpha = l.d(alpha_at, 1);
  if (result == DType::kBool) {
    if (fn == Binary::kAdd && alpha != 0) return l.binary(Binary::kLogicalOr, l.as(a, result), l.as(bb, result));
    const ValueId x = l.as(a, DType::kI32), y = l.as(bb, DType::kI32);
    return l.cast(l.binary(fn, x, y, alpha), DType::kBool);
  }
  return arithmetic(l, fn, a, bb, alpha);
}

void add(L& l) { l.result(add_scaled(l, Binary::kAdd, l.operand(0), l.operand(1), 2)); }
void sub(L& l) { l.result(add_scaled(l, Binary::kSub, l.operand(0), l.operand(1), 2)); }
void rsub(L& l) { l.result(add_scaled(l, Binary::kSub, l.operand(1), l.operand(0), 2)); }

/// Products, and minima and maxima: on bools they are logical.
template <Binary fn, Binary on_bool>
void with_bool(L& l) {
  const std::array<Operand, 2> both{l.operand(0), l.operand(1)};
  const bool logical = l.result_type(both) == DType::kBool;
  l.result(arithmetic(l, logical ? on_bool : fn, both[0], both[1]));
}

void div(L& l) {
  const std::string mode = l.text(2);
  const Operand a = l.operand(0), bb = l.operand(1);
  if (mode.empty()) return l.result(arithmetic(l, Binary::kDiv, a, bb, 1, true));
  if (mode == "trunc") return l.result(arithmetic(l, Binary::kTruncDiv, a, bb));
  if (mode == "floor") return l.result(arithmetic(l, Binary::kFloorDivMod, a, bb));
  l.fail(InvalidModel("rounding_mode '", mode, "', 'trunc' or 'floor' expected"));
}

template <Binary fn>
void compare(L& l) {
  const std::array<Operand, 2> both{l.operand(0), l.operand(1)};
  const DType compute = l.compute_type(l.result_type(both), both);
  ValueId a = l.as(both[0], compute), bb = l.as(both[1], compute);
  if (compute == DType::kBool) {
    a = l.cast(a, DType::kU8);
    bb = l.cast(bb, DType::kU8);
  }
  l.result(l.binary(fn, a, bb));
}

template <Binary fn>
void logical(L& l) {
  l.result(l.binary(fn, l.as(l.operand(0), DType::kBool), l.as(l.operand(1), DType::kBool)));
}

void logical_not(L& l) { l.result(l.unary(Unary::kNot, l.cast(l.t(0), DType::kBool))); }

void bitwise_not(L& l) {
  const ValueId x = l.t(0);
  l.result(l.unary(l.dtype(x) == DType::kBool ? Unary::kNot : Unary::kBitNot, x));
}

/// Power. A scalar exponent of 2, 0.5 and the like stays a power: kernels know the short cuts.
void pow(L& l) {
  const std::array<Operand, 2> both{l.operand(0), l.operand(1)};
  const DType result = l.result_type(both);
  const DType compute = result == DType::kBool ? DType::kI64 : l.compute_type(result, both);
  l.result(l.cast(l.binary(Binary::kPow, l.as(both[0], compute), l.as(both[1], compute)), result));
}

/// Functions of a real variable: integers and bools give float32.
template <Unary fn>
void real_unary(L& l) {
  l.result(l.unary(fn, l.float_input(0)));
}
/// Functions that keep the type.
template <Unary fn>
void same_unary(L& l) {
  l.result(l.unary(fn, l.t(0)));
}
/// Rounding: integers stay as they are.
template <Unary fn>
void rounding(L& l) {
  const ValueId x = l.t(0);
  l.result(is_float(l.dtype(x)) ? l.unary(fn, x) : l.unary(Unary::kIdentity, x));
}

void round_decimals(L& l) {
  const ValueId x = l.t(0);
  const int64_t decimals = l.i(1, 0);
  if (decimals == 0 || !is_float(l.dtype(x))) return rounding<Unary::kRound>(l);
  const double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const ValueId factor = l.number(l.dtype(x), ten);
  const bool up = decimals > 0;
  const ValueId scaled = l.binary(up ? Binary::kMul : Binary::kDiv, x, factor);
  l.result(l.binary(up ? Binary::kDiv : Binary::kMul, l.unary(Unary::kRound, scaled), factor));
}

void abs(L& l) {
  const ValueId x = l.t(0);
  l.result(l.dtype(x) == DType::kBool ? l.unary(Unary::kIdentity, x) : l.unary(Unary::kAbs, x));
}
void sign(L& l) {
  const ValueId x = l.t(0);
  l.result(l.dtype(x) == DType::kBool ? l.unary(Unary::kIdentity, x) : l.unary(Unary::kSign, x));
}

template <Unary fn, bool for_integers>
void classify(L& l) {
  const ValueId x = l.t(0);
  if (is_float(l.dtype(x))) return l.result(l.unary(fn, x, 1, 1));
  l.result(l.fill(l.shape_of(x), DType::kBool, for_integers));
}

void hardtanh(L& l) {
  const ValueId x = l.t(0);
  const double lo = l.d(1, -1), hi = l.d(2, 1);
  if (is_float(l.dtype(x))) return l.result(l.unary(Unary::kClamp, x, lo, hi));
  l.result(l.op(Op::kClamp, make_attrs<NoAttrs>(), {x, l.number(l.dtype(x), lo), l.number(l.dtype(x), hi)}));
}

void relu(L& l) {
  const ValueId x = l.t(0);
  l.result(l.unary(Unary::kRelu, x));
}

void clamp(L& l) {
  std::vector<Operand> operands{l.operand(0)};
  const bool has_lo = !l.none(1), has_hi = !l.none(2);
  if (has_lo) operands.push_back(l.operand(1));
  if (has_hi) operands.push_back(l.operand(2));
  if (!l.ok()) return;
  const DType result = l.result_type(operands);
  const DType compute = l.compute_type(result, operands);
  const ValueId x = l.as(operands[0], compute);
  ValueId lo = has_lo ? l.as(operands[1], compute) : kNoValue;
  ValueId hi = has_hi ? l.as(operands.back(), compute) : kNoValue;
  const auto dims = [&](ValueId v) { return v == kNoValue ? 0 : l.rank(v); };
  if (dims(lo) > 0 || dims(hi) > 0) {
    // Tensor bounds broadcast with x, and NaN bounds win.
    ValueId y = x;
    if (lo != kNoValue) y = l.binary(Binary::kMax, y, lo);
    if (hi != kNoValue) y = l.binary(Binary::kMin, y, hi);
    return l.result(l.cast(y, result));
  }
  l.result(l.cast(l.op(Op::kClamp, make_attrs<NoAttrs>(), {x, lo, hi}), result));
}

void clamp_min(L& l) { with_bool<Binary::kMax, Binary::kLogicalOr>(l); }
void clamp_max(L& l) { with_bool<Binary::kMin, Binary::kLogicalAnd>(l); }

void leaky_relu(L& l) { l.result(l.unary(Unary::kLeakyRelu, l.float_input(0), l.d(1, 0.01))); }
void elu(L& l) { l.result(l.unary(Unary::kElu, l.float_input(0), l.d(1, 1), l.d(2, 1), l.d(3, 1))); }
void celu(L& l) { l.result(l.unary(Unary::kCelu, l.float_input(0), l.d(1, 1))); }
void gelu(L& l) { l.result(l.unary(l.text(1, "none") == "tanh" ? Unary::kGeluTanh : Unary::kGelu, l.float_input(0))); }
void logit(L& l) { l.result(l.unary(Unary::kLogit, l.float_input(0), l.d(1, -1))); }
void silu(L& l) { l.result(l.unary(Unary::kSilu, l.float_input(0), 1)); }
void softplus(L& l) { l.result(l.unary(Unary::kSoftplus, l.float_input(0), l.d(1, 1), l.d(2, 20))); }
void hardsigmoid(L& l) { l.result(l.unary(Unary::kHardSigmoid, l.float_input(0), 1.0 / 6, 0.5)); }
void hardshrink(L& l) { l.result(l.unary(Unary::kHardShrink, l.float_input(0), l.d(1, 0.5))); }
void softshrink(L& l) { l.result(l.unary(Unary::kSoftShrink, l.float_input(0), l.d(1, 0.5))); }
void threshold(L& l) { l.result(l.unary(Unary::kThresholdedRelu, l.t(0), l.d(1), l.d(2))); }
void prelu(L& l) {
  const ValueId x = l.t(0);
  ValueId w = l.t(1);
  const int r = l.rank(x);
  if (l.rank(w) == 1 && r > 2 && l.dim(w, 0) != 1) {
    std::vector<int64_t> shape(static_cast<size_t>(r - 1), 1);
    shape[0] = -1;
    w = l.reshape(w, shape);
  }
  l.result(l.binary(Binary::kPRelu, x, w));
}

void glu(L& l) {
  const ValueId x = l.float_input(0);
  const int64_t axis = l.axis(l.i(1, -1), l.rank(x));
  SplitAttrs a;
  a.axis = axis;
  a.count = 2;
  const auto halves = l.ops(Op::kSplit, make_attrs<SplitAttrs>(a), {x}, 2);
  l.result(l.binary(Binary::kMul, halves[0], l.unary(Unary::kSigmoid, halves[1])));
}

void where(L& l) {
  const std::array<Operand, 2> both{l.operand(1), l.operand(2)};
  DType result = l.out_dtype() != DType::kInvalid ? l.out_dtype() : l.result_type(both);
  l.result(l.where(l.t(0), l.as(both[0], result), l.as(both[1], result)));
}

void masked_fill(L& l) {
  const ValueId x = l.t(0);
  l.result(l.where(l.t(1), l.as(l.operand(2), l.dtype(x)), x));
}

void conj(L& l) {
  const ValueId x = l.t(0);
  l.result(is_complex(l.dtype(x)) ? l.unary(Unary::kConj, x) : l.unary(Unary::kIdentity, x));
}

void view_as_real(L& l) {
  const ValueId x = l.t(0);
  l.result(l.op(Op::kStack, make_attrs<AxisAttrs>(-1), {l.unary(Unary::kReal, x), l.unary(Unary::kImag, x)}));
}

void addcmul(L& l, Binary fn) {
  const ValueId x = l.t(0);
  const ValueId product = arithmetic(l, fn, l.operand(1), l.operand(2));
  l.result(arithmetic(l, Binary::kAdd, l.operand_of(x), l.operand_of(product), l.d(3, 1)));
}

void lerp(L& l) {
  const ValueId x = l.t(0), y = l.t(1);
  const ValueId w = l.as(l.operand(2), l.dtype(x));
  l.result(l.binary(Binary::kAdd, x, l.binary(Binary::kMul, w, l.binary(Binary::kSub, y, x))));
}

/// isclose(self, other, rtol, atol, equal_nan): |self - other| <= atol + |rtol * other|, or equal.
ValueId close(L& l) {
  const std::array<Operand, 2> both{l.operand(0), l.operand(1)};
  const DType t = l.result_type(both);
  const ValueId a = l.as(both[0], t), bb = l.as(both[1], t);
  const ValueId equal = l.binary(Binary::kEqual, a, bb);
  const ValueId x = l.cast(a, DType::kF64), y = l.cast(bb, DType::kF64);
  const ValueId difference = l.unary(Unary::kAbs, l.binary(Binary::kSub, x, y));
  const ValueId allowed =
      l.binary(Binary::kAdd, l.unary(Unary::kAbs, l.binary(Binary::kMul, y, l.number(DType::kF64, l.d(2, 1e-5)))),
               l.number(DType::kF64, l.d(3, 1e-8)));
  const ValueId finite = l.unary(Unary::kIsFinite, difference);
  const ValueId near = l.binary(Binary::kLogicalAnd, finite, l.binary(Binary::kLessEqual, difference, allowed));
  const ValueId result = l.binary(Binary::kLogicalOr, equal, near);
  if (!l.flag(4)) return result;
  const auto nan = [&](ValueId v) { return l.unary(Unary::kIsNan, v); };
  return l.binary(Binary::kLogicalOr, result, l.binary(Binary::kLogicalAnd, nan(x), nan(y)));
}

void allclose(L& l) {
  const ValueId each = l.reshape(close(l), {-1});
  l.result(l.reduce(Reduction::kAll, each, {0}, false));
}

constexpr Entry kEntries[] = {
    {"aten::add", add},
    {"aten::sub", sub},
    {"aten::rsub", rsub},
    {"aten::mul", with_bool<Binary::kMul, Binary::kLogicalAnd>},
    {"aten::div", div},
    {"aten::true_divide", promoted_real<Binary::kDiv>},
    {"aten::floor_divide", promoted<Binary::kFloorDivMod>},
    {"aten::remainder", promoted<Binary::kMod>},
    {"aten::fmod", promoted<Binary::kFmod>},
    {"aten::pow", pow},
    {"aten::maximum", with_bool<Binary::kMax, Binary::kLogicalOr>},
    {"aten::minimum", with_bool<Binary::kMin, Binary::kLogicalAnd>},
    {"aten::fmax", promoted<Binary::kFmax>},
    {"aten::fmin", promoted<Binary::kFmin>},
    {"aten::atan2", promoted_real<Binary::kAtan2>},
    {"aten::hypot", promoted<Binary::kHypot>},
    {"aten::copysign", promoted_real<Binary::kCopySign>},
    {"aten::eq", compare<Binary::kEqual>},
    {"aten::ne", compare<Binary::kNotEqual>},
    {"aten::lt", compare<Binary::kLess>},
    {"aten::le", compare<Binary::kLessEqual>},
    {"aten::gt", compare<Binary::kGreater>},
    {"aten::ge", compare<Binary::kGreaterEqual>},
    {"aten::logical_and", logical<Binary::kLogicalAnd>},
    {"aten::logical_or", logical<Binary::kLogicalOr>},
    {"aten::logical_xor", logical<Binary::kLogicalXor>},
    {"aten::logical_not", logical_not},
    {"aten::bitwise_and", with_bool<Binary::kBitAnd, Binary::kLogicalAnd>},
    {"aten::bitwise_or", with_bool<Binary::kBitOr, Binary::kLogicalOr>},
    {"aten::bitwise_xor", with_bool<Binary::kBitXor, Binary::kLogicalXor>},
    {"aten::bitwise_not", bitwise_not},
    {"aten::bitwise_left_shift", promoted<Binary::kShiftLeft>},
    {"aten::bitwise_right_shift", promoted<Binary::kShiftRight>},
    {"aten::abs", abs},
    {"aten::neg", same_unary<Unary::kNeg>},
    {"aten::sign", sign},
    {"aten::floor", rounding<Unary::kFloor>},
    {"aten::ceil", rounding<Unary::kCeil>},
    {"aten::trunc", rounding<Unary::kTrunc>},
    {"aten::round", round_decimals},
    {"aten::frac", [](L& l) { l.result(l.binary(Binary::kSub, l.t(0), l.unary(Unary::kTrunc, l.t(0)))); }},
    {"aten::square", same_unary<Unary::kSquare>},
    {"aten::sqrt", real_unary<Unary::kSqrt>},
    {"aten::rsqrt", real_unary<Unary::kRsqrt>},
    {"aten::reciprocal", real_unary<Unary::kReciprocal>},
    {"aten::exp", real_unary<Unary::kExp>},
    {"aten::exp2", real_unary<Unary::kExp2>},
    {"aten::expm1", real_unary<Unary::kExpm1>},
    {"aten::log", real_unary<Unary::kLog>},
    {"aten::log1p", real_unary<Unary::kLog1p>},
    {"aten::log2", real_unary<Unary::kLog2>},
    {"aten::log10", real_unary<Unary::kLog10>},
    {"aten::sin", real_unary<Unary::kSin>},
    {"aten::cos", real_unary<Unary::kCos>},
    {"aten::tan", real_unary<Unary::kTan>},
    {"aten::asin", real_unary<Unary::kAsin>},
    {"aten::acos", real_unary<Unary::kAcos>},
    {"aten::atan", real_unary<Unary::kAtan>},
    {"aten::sinh", real_unary<Unary::kSinh>},
    {"aten::cosh", real_unary<Unary::kCosh>},
    {"aten::tanh", real_unary<Unary::kTanh>},
    {"aten::asinh", real_unary<Unary::kAsinh>},
    {"aten::acosh", real_unary<Unary::kAcosh>},
    {"aten::atanh", real_unary<Unary::kAtanh>},
    {"aten::erf", real_unary<Unary::kErf>},
    {"aten::erfc", real_unary<Unary::kErfc>},
    {"aten::lgamma", real_unary<Unary::kLgamma>},
    {"aten::digamma", real_unary<Unary::kDigamma>},
    {"aten::sigmoid", real_unary<Unary::kSigmoid>},
    {"aten::log_sigmoid", real_unary<Unary::kLogSigmoid>},
    {"aten::isnan", classify<Unary::kIsNan, false>},
    {"aten::isinf", classify<Unary::kIsInf, false>},
    {"aten::isfinite", classify<Unary::kIsFinite, true>},
    {"aten::hardtanh", hardtanh},
    {"aten::relu", relu},
    {"aten::relu6", [](L& l) { l.result(l.unary(Unary::kRelu6, l.t(0))); }},
    {"aten::clamp", clamp},
    {"aten::clamp_min", clamp_min},
    {"aten::clamp_max", clamp_max},
    {"aten::leaky_relu", leaky_relu},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::selu",
     [](L& l) { l.result(l.unary(Unary::kSelu, l.float_input(0), 1.6732632423543772848, 1.0507009873554804934)); }},
    {"aten::gelu", gelu},
    {"aten::logit", logit},
    {"aten::silu", silu},
    {"aten::mish", real_unary<Unary::kMish>},
    {"aten::softplus", softplus},
    {"aten::hardsigmoid", hardsigmoid},
    {"aten::hardswish", real_unary<Unary::kHardSwish>},
    {"aten::hardshrink", hardshrink},
    {"aten::softshrink", softshrink},
    {"aten::threshold", threshold},
    {"aten::prelu", prelu},
    {"aten::_prelu_kernel", prelu},
    {"aten::glu", glu},
    {"aten::where", where},
    {"aten::masked_fill", masked_fill},
    {"aten::_conj_physical", conj},
    {"aten::conj_physical", conj},
    {"aten::view_as_real_copy", view_as_real},
    {"aten::complex",
     [](L& l) {
       l.result(l.op(Op::kComplex, make_attrs<NoAttrs>(), {l.t(0), l.t(1)}));
     }},
    {"aten::isclose", [](L& l) { l.result(close(l)); }},
    {"aten::allclose", allclose},
    {"aten::real", real_unary<Unary::kReal>},
    {"aten::addcmul", [](L& l) { addcmul(l, Binary::kMul); }},
    {"aten::addcdiv", [](L& l) { addcmul(l, Binary::kDiv); }},
    {"aten::lerp", lerp},
};

}  // namespace

std::span<const Entry> elementwise_entries() { return kEntries; }

}  // namespace smelt::aten
