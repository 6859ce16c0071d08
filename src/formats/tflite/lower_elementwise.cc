// Element-wise operators, conversions and selection.
#include "formats/tflite/lowering.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

Binary binary_of(Code code) {
  switch (code) {
    case Code::ADD:
      return Binary::kAdd;
    case Code::SUB:
      return Binary::kSub;
    case Code::MUL:
      return Binary::kMul;
    case Code::DIV:
      return Binary::kDiv;
    case Code::FLOOR_DIV:
      return Binary::kFloorDiv;
    case Code::FLOOR_MOD:
      return Binary::kMod;
    case Code::POW:
      return Binary::kPow;
    case Code::MAXIMUM:
      return Binary::kMax;
    case Code::MINIMUM:
      return Binary::kMin;
    case Code::SQUARED_DIFFERENCE:
      return Binary::kSquaredDifference;
    case Code::PRELU:
      return Binary::kPRelu;
    case Code::LOGICAL_AND:
      return Binary::kLogicalAnd;
    case Code::LOGICAL_OR:
      return Binary::kLogicalOr;
    case Code::EQUAL:
      return Binary::kEqual;
    case Code::NOT_EQUAL:
      return Binary::kNotEqual;
    case Code::LESS:
      return Binary::kLess;
    case Code::LESS_EQUAL:
      return Binary::kLessEqual;
    case Code::GREATER:
      return Binary::kGreater;
    case Code::GREATER_EQUAL:
      return Binary::kGreaterEqual;
    case Code::ATAN2:
      return Binary::kAtan2;
    case Code::BITWISE_XOR:
      return Binary::kBitXor;
    default:
      return Binary::kShiftRight;
  }
}

tfl::ActivationFunctionType fused(const Lowering& l) {
  if (const auto* o = l.options<tfl::AddOptions>()) return o->fused_activation_function();
  if (const auto* o = l.options<tfl::SubOptions>()) return o->fused_activation_function();
  if (const auto* o = l.options<tfl::MulOptions>()) return o->fused_activation_function();
  if (const auto* o = l.options<tfl::DivOptions>()) return o->fused_activation_function();
  return tfl::ActivationFunctionType::NONE;
}

Result<UnaryAttrs> unary_of(const Lowering& l) {
  switch (l.code()) {
    case Code::ABS:
    case Code::COMPLEX_ABS:
      return UnaryAttrs(Unary::kAbs);
    case Code::NEG:
      return UnaryAttrs(Unary::kNeg);
    case Code::FLOOR:
      return UnaryAttrs(Unary::kFloor);
    case Code::CEIL:
      return UnaryAttrs(Unary::kCeil);
    case Code::ROUND:
      return UnaryAttrs(Unary::kRound);
    case Code::SQRT:
      return UnaryAttrs(Unary::kSqrt);
    case Code::RSQRT:
      return UnaryAttrs(Unary::kRsqrt);
    case Code::SQUARE:
      return UnaryAttrs(Unary::kSquare);
    case Code::EXP:
      return UnaryAttrs(Unary::kExp);
    case Code::LOG:
      return UnaryAttrs(Unary::kLog);
    case Code::SIN:
      return UnaryAttrs(Unary::kSin);
    case Code::COS:
      return UnaryAttrs(Unary::kCos);
    case Code::TANH:
      return UnaryAttrs(Unary::kTanh);
    case Code::LOGISTIC:
      return UnaryAttrs(Unary::kSigmoid);
    case Code::RELU:
      return UnaryAttrs(Unary::kRelu);
    case Code::RELU6:
      return UnaryAttrs(Unary::kRelu6);
    case Code::RELU_N1_TO_1:
      return UnaryAttrs(Unary::kReluN1);
    case Code::RELU_0_TO_1:
      return UnaryAttrs(Unary::kClamp, 0, 1);
    case Code::LEAKY_RELU: {
      const auto* o = l.options<tfl::LeakyReluOptions>();
      if (!o) return InvalidModel("LeakyReluOptions are missing");
      return UnaryAttrs(Unary::kLeakyRelu, o->alpha());
    }
    case Code::ELU:
      return UnaryAttrs(Unary::kElu, 1, 1, 1);
    case Code::HARD_SWISH:
      return UnaryAttrs(Unary::kHardSwish);
    case Code::GELU: {
      const auto* o = l.options<tfl::GeluOptions>();
      return UnaryAttrs(o && o->approximate() ? Unary::kGeluTanh : Unary::kGelu);
    }
    case Code::SIGN:
      return UnaryAttrs(Unary::kSign);
    case Code::LOGICAL_NOT:
      return UnaryAttrs(Unary::kNot);
    case Code::REAL:
      return UnaryAttrs(Unary::kReal);
    case Code::IMAG:
      return UnaryAttrs(Unary::kImag);
    default:
      return Internal("no unary function");
  }
}

}  // namespace

Status lower_binary(Lowering& l) {
  BinaryAttrs a(binary_of(l.code()));
  SMELT_ASSIGN(a.act, clamp_of(fused(l)));
  a.rounding = Rounding::kFixedDouble;
  if (const auto* o = l.options<tfl::AddOptions>()) a.pot_scale = o->pot_scale_int16();
  if (const auto* o = l.options<tfl::SubOptions>()) a.pot_scale = o->pot_scale_int16();
  a.checked_division = a.fn == Binary::kDiv || a.fn == Binary::kFloorDiv || a.fn == Binary::kMod;
  ValueId b = l.in(1);
  if (a.fn == Binary::kShiftRight) {
    // Distances outside the type's width count as the nearest one inside.
    const DType dtype = l.type(1).dtype;
    if (!is_integer(dtype)) return InvalidModel("shift distances of ", to_string(dtype));
    const int width = bit_width(dtype);
    SMELT_ASSIGN(b, l.b().op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMax), {b, l.b().scalar(dtype, 0)}));
    SMELT_ASSIGN(b, l.b().op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMin), {b, l.b().scalar(dtype, width - 1)}));
  }
  // TFLite orders stored integers of 16 bits, whatever their scales.
  const bool ordered =
      a.fn == Binary::kLess || a.fn == Binary::kLessEqual || a.fn == Binary::kGreater || a.fn == Binary::kGreaterEqual;
  const bool stored = ordered && l.type(0).dtype == DType::kI16;
  return (l.*(stored ? &Lowering::emit_plain : &Lowering::emit))(Op::kBinary, make_attrs<BinaryAttrs>(a), {l.in(0), b});
}

Status lower_add_n(Lowering& l) {
  ValueId sum = l.in(0);
  if (l.inputs() == 1) return l.alias(0, sum);
  BinaryAttrs a(Binary::kAdd);
  a.rounding = Rounding::kFixedDouble;
  const auto attrs = make_attrs<BinaryAttrs>(a);
  for (int i = 1; i + 1 < l.inputs(); ++i) {
    SMELT_ASSIGN(sum, l.b().op(Op::kBinary, attrs, {sum, l.in(i)}));
  }
  return l.emit(Op::kBinary, attrs, {sum, l.in(l.inputs() - 1)});
}

Status lower_unary(Lowering& l) {
  SMELT_ASSIGN(UnaryAttrs a, unary_of(l));
  a.rounding = Rounding::kFixedDouble;
  return l.emit(Op::kUnary, make_attrs<UnaryAttrs>(a), {l.in(0)});
}

/// CAST converts stored numbers; it knows nothing of quantization.
Status lower_cast(Lowering& l) {
  CastAttrs a(l.out_type(0).dtype);
  a.clamp = true;
  return l.emit_plain(Op::kCast, make_attrs<CastAttrs>(a), {l.in(0)});
}

Status lower_bitcast(Lowering& l) {
  return l.emit_plain(Op::kBitCast, make_attrs<CastAttrs>(l.out_type(0).dtype), {l.in(0)});
}

Status lower_quantize(Lowering& l) {
  ValueId x = l.in(0);
  if (l.type(0).dtype == DType::kI32 && l.in_slot(0).quant) {
    SMELT_ASSIGN(x, l.with_quant(x, l.in_slot(0).quant));
  }
  if (!l.out_type(0).quant) {
    const QuantPtr quant = l.out_slot(0).quant;
    if (!quant) return InvalidModel("the output has no quantization parameters");
    l.b().graph().value(l.out(0)).type.quant = quant;
  }
  return l.emit(Op::kQuantize, make_attrs<NoAttrs>(), {x});
}

Status lower_dequantize(Lowering& l) {
  ValueId x = l.in(0);
  if (is_integer(l.type(0).dtype) && !l.type(0).quant) {
    if (!l.in_slot(0).quant) return InvalidModel("the input has no quantization parameters");
    SMELT_ASSIGN(x, l.with_quant(x, l.in_slot(0).quant));
  }
  return l.emit(Op::kDequantize, make_attrs<NoAttrs>(), {x});
}

Status lower_fake_quant(Lowering& l) {
  const auto* o = l.options<tfl::FakeQuantOptions>();
  if (!o) return InvalidModel("FakeQuantOptions are missing");
  if (o->num_bits() < 2 || o->num_bits() > 16) return InvalidModel("num_bits ", o->num_bits(), ", 2 to 16 expected");
  FakeQuantAttrs a;
  a.min = o->min();
  a.max = o->max();
  a.bits = o->num_bits();
  a.narrow_range = o->narrow_range();
  return l.emit(Op::kFakeQuant, make_attrs<FakeQuantAttrs>(a), {l.in(0)});
}

/// SELECT with a 1-D condition chooses rows; otherwise both forms broadcast.
Status lower_select(Lowering& l) {
  ValueId condition = l.in(0);
  const ValueType c = l.type(0), x = l.type(1);
  if (l.code() == Code::SELECT && c.ranked && x.ranked && c.shape.rank() == 1 && x.shape.rank() > 1) {
    std::vector<int64_t> axes;
    for (int i = 1; i < x.shape.rank(); ++i) axes.push_back(i);
    SMELT_ASSIGN(condition, l.b().op(Op::kUnsqueeze, make_attrs<NoAttrs>(), {condition, l.b().i64(axes)}));
  }
  return l.emit(Op::kWhere, make_attrs<NoAttrs>(), {condition, l.in(1), l.in(2)});
}

/// Sparse constants are expanded when they are read.
Status lower_densify(Lowering& l) { return l.alias(0, l.in(0)); }

}  // namespace smelt::tflite
