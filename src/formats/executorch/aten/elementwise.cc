// Element-wise operators: PyTorch's promotion, integer division modes and comparisons.
#include <array>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// fn(a, b) in the promoted type. `real`: integers become float32 first.
ValueId arithmetic(CallContext& c, Binary fn, Operand a, Operand bb, double alpha = 1, bool real = false) {
  const std::array<Operand, 2> both{a, bb};
  DType result = c.result_type(both);
  if (real && !is_float(result) && !is_complex(result)) result = DType::kF32;
  const DType compute = c.compute_type(result, both);
  return c.cast(c.binary(fn, c.as(a, compute), c.as(bb, compute), alpha), result);
}

template <Binary fn>
void promoted(CallContext& c) {
  c.result(arithmetic(c, fn, c.operand(0), c.operand(1)));
}
template <Binary fn>
void promoted_real(CallContext& c) {
  c.result(arithmetic(c, fn, c.operand(0), c.operand(1), 1, true));
}

/// a + alpha b in the promoted type; bool with bool adds as logical or.
ValueId add_scaled(CallContext& c, Binary fn, Operand a, Operand bb, size_t alpha_at) {
  const std::array<Operand, 2> both{a, bb};
  const DType result = c.result_type(both);
  const double alpha = c.d(alpha_at, 1);
  if (result == DType::kBool) {
    if (fn == Binary::kAdd && alpha != 0) return c.binary(Binary::kLogicalOr, c.as(a, result), c.as(bb, result));
    const ValueId x = c.as(a, DType::kI32), y = c.as(bb, DType::kI32);
    return c.cast(c.binary(fn, x, y, alpha), DType::kBool);
  }
  return arithmetic(c, fn, a, bb, alpha);
}

void add(CallContext& c) { c.result(add_scaled(c, Binary::kAdd, c.operand(0), c.operand(1), 2)); }
void sub(CallContext& c) { c.result(add_scaled(c, Binary::kSub, c.operand(0), c.operand(1), 2)); }
void rsub(CallContext& c) { c.result(add_scaled(c, Binary::kSub, c.operand(1), c.operand(0), 2)); }

/// Products, and minima and maxima: on bools they are logical.
template <Binary fn, Binary on_bool>
void with_bool(CallContext& c) {
  const std::array<Operand, 2> both{c.operand(0), c.operand(1)};
  const bool logical = c.result_type(both) == DType::kBool;
  c.result(arithmetic(c, logical ? on_bool : fn, both[0], both[1]));
}

void div(CallContext& c) {
  const std::string mode = c.text(2);
  const Operand a = c.operand(0), bb = c.operand(1);
  if (mode.empty()) return c.result(arithmetic(c, Binary::kDiv, a, bb, 1, true));
  if (mode == "trunc") return c.result(arithmetic(c, Binary::kTruncDiv, a, bb));
  if (mode == "floor") return c.result(arithmetic(c, Binary::kFloorDivMod, a, bb));
  c.fail("rounding_mode '", mode, "', 'trunc' or 'floor' expected");
}

template <Binary fn>
void compare(CallContext& c) {
  const std::array<Operand, 2> both{c.operand(0), c.operand(1)};
  const DType compute = c.compute_type(c.result_type(both), both);
  ValueId a = c.as(both[0], compute), bb = c.as(both[1], compute);
  if (compute == DType::kBool) {
    a = c.cast(a, DType::kU8);
    bb = c.cast(bb, DType::kU8);
  }
  c.result(c.binary(fn, a, bb));
}

template <Binary fn>
void logical(CallContext& c) {
  c.result(c.binary(fn, c.as(c.operand(0), DType::kBool), c.as(c.operand(1), DType::kBool)));
}

void logical_not(CallContext& c) { c.result(c.unary(Unary::kNot, c.cast(c.t(0), DType::kBool))); }

void bitwise_not(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.unary(c.dtype(x) == DType::kBool ? Unary::kNot : Unary::kBitNot, x));
}

/// Power. A scalar exponent of 2, 0.5 and the like stays a power: kernels know the short cuts.
void pow(CallContext& c) {
  const std::array<Operand, 2> both{c.operand(0), c.operand(1)};
  const DType result = c.result_type(both);
  const DType compute = result == DType::kBool ? DType::kI64 : c.compute_type(result, both);
  c.result(c.cast(c.binary(Binary::kPow, c.as(both[0], compute), c.as(both[1], compute)), result));
}

/// Functions of a real variable: integers and bools give float32.
template <Unary fn>
void real_unary(CallContext& c) {
  c.result(c.unary(fn, c.float_input(0)));
}
/// Functions that keep the type.
template <Unary fn>
void same_unary(CallContext& c) {
  c.result(c.unary(fn, c.t(0)));
}
/// Rounding: integers stay as they are.
template <Unary fn>
void rounding(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(is_float(c.dtype(x)) ? c.unary(fn, x) : c.identity(x));
}

void round_decimals(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t decimals = c.i(1, 0);
  if (decimals == 0 || !is_float(c.dtype(x))) return rounding<Unary::kRound>(c);
  const double ten = std::pow(10.0, static_cast<double>(std::abs(decimals)));
  const ValueId factor = c.number(c.dtype(x), ten);
  const bool up = decimals > 0;
  const ValueId scaled = c.binary(up ? Binary::kMul : Binary::kDiv, x, factor);
  c.result(c.binary(up ? Binary::kDiv : Binary::kMul, c.unary(Unary::kRound, scaled), factor));
}

void abs(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.dtype(x) == DType::kBool ? c.identity(x) : c.unary(Unary::kAbs, x));
}
void sign(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.dtype(x) == DType::kBool ? c.identity(x) : c.unary(Unary::kSign, x));
}

template <Unary fn, bool for_integers>
void classify(CallContext& c) {
  const ValueId x = c.t(0);
  if (is_float(c.dtype(x))) return c.result(c.unary(fn, x, 1, 1));
  c.result(c.filled(c.shape_of(x), DType::kBool, for_integers));
}

void hardtanh(CallContext& c) {
  const ValueId x = c.t(0);
  const double lo = c.d(1, -1), hi = c.d(2, 1);
  if (is_float(c.dtype(x))) return c.result(c.unary(Unary::kClamp, x, lo, hi));
  c.emit(Op::kClamp, {x, c.number(c.dtype(x), lo), c.number(c.dtype(x), hi)});
}

void relu(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.unary(Unary::kRelu, x));
}

void clamp(CallContext& c) {
  std::vector<Operand> operands{c.operand(0)};
  const bool has_lo = !c.none(1), has_hi = !c.none(2);
  if (has_lo) operands.push_back(c.operand(1));
  if (has_hi) operands.push_back(c.operand(2));
  if (!c.ok()) return;
  const DType result = c.result_type(operands);
  const DType compute = c.compute_type(result, operands);
  const ValueId x = c.as(operands[0], compute);
  ValueId lo = has_lo ? c.as(operands[1], compute) : kNoValue;
  ValueId hi = has_hi ? c.as(operands.back(), compute) : kNoValue;
  const auto dims = [&](ValueId v) { return v == kNoValue ? 0 : c.rank(v); };
  if (dims(lo) > 0 || dims(hi) > 0) {
    // Tensor bounds broadcast with x, and NaN bounds win.
    ValueId y = x;
    if (lo != kNoValue) y = c.binary(Binary::kMax, y, lo);
    if (hi != kNoValue) y = c.binary(Binary::kMin, y, hi);
    return c.result(c.cast(y, result));
  }
  c.result(c.cast(c.add(Op::kClamp, {x, lo, hi}), result));
}

void clamp_min(CallContext& c) { with_bool<Binary::kMax, Binary::kLogicalOr>(c); }
void clamp_max(CallContext& c) { with_bool<Binary::kMin, Binary::kLogicalAnd>(c); }

void leaky_relu(CallContext& c) { c.result(c.unary(Unary::kLeakyRelu, c.float_input(0), c.d(1, 0.01))); }
void elu(CallContext& c) { c.result(c.unary(Unary::kElu, c.float_input(0), c.d(1, 1), c.d(2, 1), c.d(3, 1))); }
void celu(CallContext& c) { c.result(c.unary(Unary::kCelu, c.float_input(0), c.d(1, 1))); }
void gelu(CallContext& c) {
  c.result(c.unary(c.text(1, "none") == "tanh" ? Unary::kGeluTanh : Unary::kGelu, c.float_input(0)));
}
void logit(CallContext& c) { c.result(c.unary(Unary::kLogit, c.float_input(0), c.d(1, -1))); }
void silu(CallContext& c) { c.result(c.unary(Unary::kSilu, c.float_input(0), 1)); }
void softplus(CallContext& c) { c.result(c.unary(Unary::kSoftplus, c.float_input(0), c.d(1, 1), c.d(2, 20))); }
void hardsigmoid(CallContext& c) { c.result(c.unary(Unary::kHardSigmoid, c.float_input(0), 1.0 / 6, 0.5)); }
void hardshrink(CallContext& c) { c.result(c.unary(Unary::kHardShrink, c.float_input(0), c.d(1, 0.5))); }
void softshrink(CallContext& c) { c.result(c.unary(Unary::kSoftShrink, c.float_input(0), c.d(1, 0.5))); }
void threshold(CallContext& c) { c.result(c.unary(Unary::kThresholdedRelu, c.t(0), c.d(1), c.d(2))); }
void prelu(CallContext& c) {
  const ValueId x = c.t(0);
  ValueId w = c.t(1);
  const int r = c.rank(x);
  if (c.rank(w) == 1 && r > 2 && c.dim(w, 0) != 1) {
    std::vector<int64_t> shape(static_cast<size_t>(r - 1), 1);
    shape[0] = -1;
    w = c.reshape(w, shape);
  }
  c.result(c.binary(Binary::kPRelu, x, w));
}

void glu(CallContext& c) {
  const ValueId x = c.float_input(0);
  const int64_t axis = c.axis(c.i(1, -1), c.rank(x));
  const auto parts = c.split(x, axis, 2);
  c.result(c.binary(Binary::kMul, parts[0], c.unary(Unary::kSigmoid, parts[1])));
}

void where(CallContext& c) {
  const std::array<Operand, 2> both{c.operand(1), c.operand(2)};
  DType result = c.out_dtype() != DType::kInvalid ? c.out_dtype() : c.result_type(both);
  c.result(c.where(c.t(0), c.as(both[0], result), c.as(both[1], result)));
}

void masked_fill(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(c.where(c.t(1), c.as(c.operand(2), c.dtype(x)), x));
}

void conj(CallContext& c) {
  const ValueId x = c.t(0);
  c.result(is_complex(c.dtype(x)) ? c.unary(Unary::kConj, x) : c.identity(x));
}

void view_as_real(CallContext& c) {
  const ValueId x = c.t(0);
  c.emit(Op::kStack, AxisAttrs(-1), {c.unary(Unary::kReal, x), c.unary(Unary::kImag, x)});
}

void addcmul(CallContext& c, Binary fn) {
  const ValueId x = c.t(0);
  const ValueId product = arithmetic(c, fn, c.operand(1), c.operand(2));
  c.result(arithmetic(c, Binary::kAdd, c.operand_of(x), c.operand_of(product), c.d(3, 1)));
}

void lerp(CallContext& c) {
  const ValueId x = c.t(0), y = c.t(1);
  const ValueId w = c.as(c.operand(2), c.dtype(x));
  c.result(c.binary(Binary::kAdd, x, c.binary(Binary::kMul, w, c.binary(Binary::kSub, y, x))));
}

/// isclose(self, other, rtol, atol, equal_nan): |self - other| <= atol + |rtol * other|, or equal.
ValueId close(CallContext& c) {
  const std::array<Operand, 2> both{c.operand(0), c.operand(1)};
  const DType t = c.result_type(both);
  const ValueId a = c.as(both[0], t), bb = c.as(both[1], t);
  const ValueId equal = c.binary(Binary::kEqual, a, bb);
  const ValueId x = c.cast(a, DType::kF64), y = c.cast(bb, DType::kF64);
  const ValueId difference = c.unary(Unary::kAbs, c.binary(Binary::kSub, x, y));
  const ValueId allowed =
      c.binary(Binary::kAdd, c.unary(Unary::kAbs, c.binary(Binary::kMul, y, c.number(DType::kF64, c.d(2, 1e-5)))),
               c.number(DType::kF64, c.d(3, 1e-8)));
  const ValueId finite = c.unary(Unary::kIsFinite, difference);
  const ValueId near = c.binary(Binary::kLogicalAnd, finite, c.binary(Binary::kLessEqual, difference, allowed));
  const ValueId result = c.binary(Binary::kLogicalOr, equal, near);
  if (!c.flag(4)) return result;
  const auto nan = [&](ValueId v) { return c.unary(Unary::kIsNan, v); };
  return c.binary(Binary::kLogicalOr, result, c.binary(Binary::kLogicalAnd, nan(x), nan(y)));
}

void allclose(CallContext& c) {
  const ValueId each = c.reshape(close(c), {-1});
  c.result(c.reduce(Reduction::kAll, each, {0}, false));
}

constexpr OpEntry kEntries[] = {
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
    {"aten::frac", [](CallContext& c) { c.result(c.binary(Binary::kSub, c.t(0), c.unary(Unary::kTrunc, c.t(0)))); }},
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
    {"aten::relu6", [](CallContext& c) { c.result(c.unary(Unary::kRelu6, c.t(0))); }},
    {"aten::clamp", clamp},
    {"aten::clamp_min", clamp_min},
    {"aten::clamp_max", clamp_max},
    {"aten::leaky_relu", leaky_relu},
    {"aten::elu", elu},
    {"aten::celu", celu},
    {"aten::selu",
     [](CallContext& c) {
       c.result(c.unary(Unary::kSelu, c.float_input(0), 1.6732632423543772848, 1.0507009873554804934));
     }},
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
     [](CallContext& c) {
       c.emit(Op::kComplex, {c.t(0), c.t(1)});
     }},
    {"aten::isclose", [](CallContext& c) { c.result(close(c)); }},
    {"aten::allclose", allclose},
    {"aten::real", real_unary<Unary::kReal>},
    {"aten::addcmul", [](CallContext& c) { addcmul(c, Binary::kMul); }},
    {"aten::addcdiv", [](CallContext& c) { addcmul(c, Binary::kDiv); }},
    {"aten::lerp", lerp},
};

}  // namespace

std::span<const OpEntry> elementwise_entries() { return kEntries; }

}  // namespace smelt::aten
