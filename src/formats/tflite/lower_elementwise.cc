// Element-wise operators, conversions and selection.
#include "formats/tflite/lowering.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

Binary binary_of(Code code) {
  using enum tfl::BuiltinOperator;
  static constexpr std::pair<Code, Binary> kFunctions[] = {{ADD, Binary::kAdd},
                                                           {SUB, Binary::kSub},
                                                           {MUL, Binary::kMul},
                                                           {DIV, Binary::kDiv},
                                                           {FLOOR_DIV, Binary::kFloorDiv},
                                                           {FLOOR_MOD, Binary::kMod},
                                                           {POW, Binary::kPow},
                                                           {MAXIMUM, Binary::kMax},
                                                           {MINIMUM, Binary::kMin},
                                                           {SQUARED_DIFFERENCE, Binary::kSquaredDifference},
                                                           {PRELU, Binary::kPRelu},
                                                           {LOGICAL_AND, Binary::kLogicalAnd},
                                                           {LOGICAL_OR, Binary::kLogicalOr},
                                                           {EQUAL, Binary::kEqual},
                                                           {NOT_EQUAL, Binary::kNotEqual},
                                                           {LESS, Binary::kLess},
                                                           {LESS_EQUAL, Binary::kLessEqual},
                                                           {GREATER, Binary::kGreater},
                                                           {GREATER_EQUAL, Binary::kGreaterEqual},
                                                           {ATAN2, Binary::kAtan2},
                                                           {BITWISE_XOR, Binary::kBitXor}};
  for (const auto& [known, fn] : kFunctions)
    if (known == code) return fn;
  return Binary::kShiftRight;
}

tfl::ActivationFunctionType fused(const OperatorContext& c) {
  if (const auto* o = c.options<tfl::AddOptions>()) return o->fused_activation_function();
  if (const auto* o = c.options<tfl::SubOptions>()) return o->fused_activation_function();
  if (const auto* o = c.options<tfl::MulOptions>()) return o->fused_activation_function();
  if (const auto* o = c.options<tfl::DivOptions>()) return o->fused_activation_function();
  return tfl::ActivationFunctionType::NONE;
}

Result<UnaryAttrs> unary_of(const OperatorContext& c) {
  using enum tfl::BuiltinOperator;
  static constexpr std::pair<Code, Unary> kFunctions[] = {{ABS, Unary::kAbs},
                                                          {COMPLEX_ABS, Unary::kAbs},
                                                          {NEG, Unary::kNeg},
                                                          {FLOOR, Unary::kFloor},
                                                          {CEIL, Unary::kCeil},
                                                          {ROUND, Unary::kRound},
                                                          {SQRT, Unary::kSqrt},
                                                          {RSQRT, Unary::kRsqrt},
                                                          {SQUARE, Unary::kSquare},
                                                          {EXP, Unary::kExp},
                                                          {LOG, Unary::kLog},
                                                          {SIN, Unary::kSin},
                                                          {COS, Unary::kCos},
                                                          {TANH, Unary::kTanh},
                                                          {LOGISTIC, Unary::kSigmoid},
                                                          {RELU, Unary::kRelu},
                                                          {RELU6, Unary::kRelu6},
                                                          {RELU_N1_TO_1, Unary::kReluN1},
                                                          {HARD_SWISH, Unary::kHardSwish},
                                                          {SIGN, Unary::kSign},
                                                          {LOGICAL_NOT, Unary::kNot},
                                                          {REAL, Unary::kReal},
                                                          {IMAG, Unary::kImag}};
  for (const auto& [known, fn] : kFunctions)
    if (known == c.code()) return UnaryAttrs(fn);
  if (c.code() == RELU_0_TO_1) return UnaryAttrs(Unary::kClamp, 0, 1);
  if (c.code() == ELU) return UnaryAttrs(Unary::kElu, 1, 1, 1);
  if (c.code() == GELU) {
    const auto* o = c.options<tfl::GeluOptions>();
    return UnaryAttrs(o && o->approximate() ? Unary::kGeluTanh : Unary::kGelu);
  }
  if (c.code() != LEAKY_RELU) return Internal("no unary function");
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::LeakyReluOptions>());
  return UnaryAttrs(Unary::kLeakyRelu, o->alpha());
}

/// TFLite's kernels take operands of one element type, quantized or not.
Status check_one_type(const OperatorContext& c) {
  for (int i = 1; i < c.inputs(); ++i) {
    if (!c.has(0) || !c.has(i)) continue;
    const DType a = c.in_type(0).dtype, b = c.in_type(i).dtype;
    if (a != b) return InvalidModel("operands of ", to_string(a), " and ", to_string(b), ": one element type expected");
  }
  return Ok();
}

}  // namespace

Status lower_binary(OperatorContext& c) {
  SMELT_TRY(check_one_type(c));
  BinaryAttrs a(binary_of(c.code()));
  SMELT_ASSIGN(a.act, clamp_of(fused(c)));
  a.rounding = Rounding::kFixedDouble;
  if (const auto* o = c.options<tfl::AddOptions>()) a.pot_scale = o->pot_scale_int16();
  if (const auto* o = c.options<tfl::SubOptions>()) a.pot_scale = o->pot_scale_int16();
  a.checked_division = a.fn == Binary::kDiv || a.fn == Binary::kFloorDiv || a.fn == Binary::kMod;
  ValueId b = c.in(1);
  if (a.fn == Binary::kShiftRight) {
    // Distances outside the type's width count as the nearest one inside.
    const DType dtype = c.in_type(1).dtype;
    if (!is_integer(dtype)) return InvalidModel("shift distances of ", to_string(dtype));
    const int width = bit_width(dtype);
    b = c.binary(Binary::kMax, b, c.scalar(dtype, 0));
    b = c.binary(Binary::kMin, b, c.scalar(dtype, width - 1));
  }
  // TFLite orders 16-bit integers as they are, whatever their scales.
  const bool ordered =
      a.fn == Binary::kLess || a.fn == Binary::kLessEqual || a.fn == Binary::kGreater || a.fn == Binary::kGreaterEqual;
  if (ordered && c.in_type(0).dtype == DType::kI16) return c.emit_unquantized(Op::kBinary, a, {c.in(0), b});
  return c.emit(Op::kBinary, a, {c.in(0), b});
}

Status lower_add_n(OperatorContext& c) {
  SMELT_TRY(check_one_type(c));
  ValueId sum = c.in(0);
  if (c.inputs() == 1) return c.alias(0, sum);
  BinaryAttrs a(Binary::kAdd);
  a.rounding = Rounding::kFixedDouble;
  const auto attrs = make_attrs<BinaryAttrs>(a);
  for (int i = 1; i + 1 < c.inputs(); ++i) {
    sum = c.add(Op::kBinary, attrs, {sum, c.in(i)});
  }
  return c.emit(Op::kBinary, attrs, {sum, c.in(c.inputs() - 1)});
}

Status lower_unary(OperatorContext& c) {
  SMELT_ASSIGN(UnaryAttrs a, unary_of(c));
  a.rounding = Rounding::kFixedDouble;
  return c.emit(Op::kUnary, UnaryAttrs(a), {c.in(0)});
}

/// CAST converts the numbers of a tensor; it ignores quantization.
Status lower_cast(OperatorContext& c) {
  CastAttrs a(c.out_type(0).dtype);
  a.clamp = true;
  return c.emit_unquantized(Op::kCast, a, {c.in(0)});
}

Status lower_bitcast(OperatorContext& c) {
  return c.emit_unquantized(Op::kBitCast, CastAttrs(c.out_type(0).dtype), {c.in(0)});
}

Status lower_quantize(OperatorContext& c) {
  ValueId x = c.in(0);
  if (c.in_type(0).dtype == DType::kI32 && c.in_slot(0).quant) {
    x = c.with_quant(x, c.in_slot(0).quant);
  }
  if (!c.out_type(0).quant) {
    const QuantPtr quant = c.out_slot(0).quant;
    if (!quant) return InvalidModel("the output has no quantization parameters");
    c.builder().graph().value(c.out(0)).type.quant = quant;
  }
  return c.emit(Op::kQuantize, {x});
}

Status lower_dequantize(OperatorContext& c) {
  ValueId x = c.in(0);
  if (is_integer(c.in_type(0).dtype) && !c.in_type(0).quant) {
    if (!c.in_slot(0).quant) return InvalidModel("the input has no quantization parameters");
    x = c.with_quant(x, c.in_slot(0).quant);
  }
  return c.emit(Op::kDequantize, {x});
}

Status lower_fake_quant(OperatorContext& c) {
  SMELT_ASSIGN(const auto* o, c.need_options<tfl::FakeQuantOptions>());
  if (o->num_bits() < 2 || o->num_bits() > 16) return InvalidModel("num_bits ", o->num_bits(), ", 2 to 16 expected");
  FakeQuantAttrs a;
  a.min = o->min();
  a.max = o->max();
  a.bits = o->num_bits();
  a.narrow_range = o->narrow_range();
  return c.emit(Op::kFakeQuant, a, {c.in(0)});
}

/// SELECT with a 1-D condition chooses along dimension 0; otherwise both forms broadcast.
Status lower_select(OperatorContext& c) {
  ValueId condition = c.in(0);
  const int rank = c.rank(c.in(1));
  if (c.code() == Code::SELECT && c.rank(condition) == 1 && rank > 1) {
    std::vector<int64_t> axes;
    for (int i = 1; i < rank; ++i) axes.push_back(i);
    condition = c.unsqueeze(condition, axes);
  }
  return c.emit(Op::kWhere, {condition, c.in(1), c.in(2)});
}

/// Sparse constants are expanded when they are read.
Status lower_densify(OperatorContext& c) { return c.alias(0, c.in(0)); }

}  // namespace smelt::tflite
