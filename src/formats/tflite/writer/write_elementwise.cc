// Functions of several variables, conversions of types and quantization.
#include <algorithm>
#include <cmath>

#include "formats/tflite/writer/op_writer.h"
#include "ops/elementwise/elementwise.h"
#include "ops/random/random.h"
#include "ops/shape/channels_perm.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

std::optional<Code> binary_code(Binary fn) {
  switch (fn) {
    case Binary::kAdd:
      return Code::ADD;
    case Binary::kSub:
      return Code::SUB;
    case Binary::kMul:
      return Code::MUL;
    case Binary::kDiv:
      return Code::DIV;
    case Binary::kFloorDiv:
      return Code::FLOOR_DIV;
    case Binary::kMod:
      return Code::FLOOR_MOD;
    case Binary::kPow:
      return Code::POW;
    case Binary::kMax:
      return Code::MAXIMUM;
    case Binary::kMin:
      return Code::MINIMUM;
    case Binary::kFmax:
      return Code::MAXIMUM;
    case Binary::kFmin:
      return Code::MINIMUM;
    case Binary::kSquaredDifference:
      return Code::SQUARED_DIFFERENCE;
    case Binary::kPRelu:
      return Code::PRELU;
    case Binary::kLogicalAnd:
      return Code::LOGICAL_AND;
    case Binary::kLogicalOr:
      return Code::LOGICAL_OR;
    case Binary::kEqual:
      return Code::EQUAL;
    case Binary::kNotEqual:
      return Code::NOT_EQUAL;
    case Binary::kLess:
      return Code::LESS;
    case Binary::kLessEqual:
      return Code::LESS_EQUAL;
    case Binary::kGreater:
      return Code::GREATER;
    case Binary::kGreaterEqual:
      return Code::GREATER_EQUAL;
    case Binary::kAtan2:
      return Code::ATAN2;
    case Binary::kBitXor:
      return Code::BITWISE_XOR;
    case Binary::kShiftRight:
      return Code::RIGHT_SHIFT;
    default:
      return std::nullopt;
  }
}

/// Operators whose kernels take 8-bit quantized values.
bool takes_quantized(Binary fn) {
  switch (fn) {
    case Binary::kAdd:
    case Binary::kSub:
    case Binary::kMul:
    case Binary::kMax:
    case Binary::kMin:
    case Binary::kSquaredDifference:
    case Binary::kPRelu:
      return true;
    default:
      return gives_bool(fn);
  }
}

/// A function of two tensors of one element type that no operator is.
std::optional<int> binary_formula(OpWriter& w, Binary fn, int a, int b) {
  const bool real = is_float(w.file_dtype(a));
  switch (fn) {
    case Binary::kLogicalXor:
      return w.compare(Code::NOT_EQUAL, a, b);
    case Binary::kHypot:
      return w.call(Code::SQRT, {w.add({w.call(Code::SQUARE, {a}), w.call(Code::SQUARE, {b})})});
    case Binary::kFloorDivMod:
      return w.binary(Code::FLOOR_DIV, a, b);
    case Binary::kTruncDiv:
      if (!real) return w.div(a, b);
      {
        const int q = w.div(a, b);
        return w.mul({w.call(Code::SIGN, {q}), w.call(Code::FLOOR, {w.call(Code::ABS, {q})})});
      }
    case Binary::kFmod: {
      if (!real) return w.sub(a, w.mul(w.div(a, b), b));
      // The remainder of the magnitudes with the sign of the dividend.
      const int r = w.binary(Code::FLOOR_MOD, {w.call(Code::ABS, {a}), w.call(Code::ABS, {b})});
      return w.mul(w.call(Code::SIGN, {a}), r);
    }
    case Binary::kBitAnd:
    case Binary::kBitOr:
      if (w.file_dtype(a) != DType::kBool) return std::nullopt;
      return w.binary(fn == Binary::kBitAnd ? Code::LOGICAL_AND : Code::LOGICAL_OR, a, b);
    default:
      return std::nullopt;
  }
}

/// Both operands in one order of dimensions.
struct Operands {
  int a = -1, b = -1;
  bool last = false;
};

/// An operand of a lower rank with dimensions of 1 in front; -1 if it is dynamic.
int widened_last(OpWriter& w, int i, int rank) {
  const ValueType& t = w.in_type(i);
  SubgraphWriter& s = w.subgraph();
  if (t.shape.rank() == rank) return w.in_last(i);
  if (t.shape.rank() == 0) return w.in(i);
  if (!w.constant(i) || (t.quant && t.quant->kind != Quantization::Kind::kPerTensor)) return -1;
  std::vector<int64_t> shape(static_cast<size_t>(rank - t.shape.rank()), 1);
  shape.insert(shape.end(), t.shape.begin(), t.shape.end());
  return s.transpose(s.reshape(w.in(i), shape), channels_last_perm(rank));
}

Operands operands(OpWriter& w, int first, int second) {
  const bool ranked = w.in_type(first).ranked && w.in_type(second).ranked;
  const int rank = ranked ? std::max(w.rank(first), w.rank(second)) : 0;
  SubgraphWriter& s = w.subgraph();
  const auto full = [&](int i) { return w.rank(i) == rank && s.is_channels_last(w.id(i)); };
  if (rank >= 3 && (full(first) || full(second))) {
    const bool fits = (w.rank(first) == rank || w.rank(first) == 0 || w.constant(first)) &&
                      (w.rank(second) == rank || w.rank(second) == 0 || w.constant(second));
    if (fits) {
      const Operands o{widened_last(w, first, rank), widened_last(w, second, rank), true};
      if (o.a >= 0 && o.b >= 0) return o;
    }
  }
  return {w.in(first), w.in(second), false};
}

bool compares(Binary fn) {
  switch (fn) {
    case Binary::kMax:
    case Binary::kMin:
    case Binary::kFmax:
    case Binary::kFmin:
    case Binary::kLess:
    case Binary::kLessEqual:
    case Binary::kGreater:
    case Binary::kGreaterEqual:
      return true;
    default:
      return false;
  }
}

/// Element types that ADD and others compute with; narrower integers are widened. Quotients are of int32.
DType arithmetic_type(DType dtype, Binary fn) {
  const bool quotient =
      fn == Binary::kDiv || fn == Binary::kFloorDiv || fn == Binary::kTruncDiv || fn == Binary::kFloorDivMod;
  if (quotient && is_integer(dtype)) return DType::kI32;
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
    case DType::kI16:
    case DType::kU16:
      return DType::kI32;
    case DType::kU32:
    case DType::kU64:
      return DType::kI64;
    default:
      return dtype;
  }
}

bool finish(OpWriter& w, bool last, int y) {
  last ? w.out_last(0, y) : w.out(0, y);
  return true;
}

bool write_quantized_binary(OpWriter& w, const BinaryAttrs& a, const Operands& o, Code code) {
  SubgraphWriter& s = w.subgraph();
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const auto act = a.takes_activation() ? fused_activation(a.act) : tfl::ActivationFunctionType::NONE;
  const auto options = a.takes_activation()
                           ? arithmetic_options(code, act.value_or(tfl::ActivationFunctionType::NONE), a.pot_scale)
                           : OperatorOptions{};
  const int y = s.add(code, {o.a, o.b}, dtype, options, quant);
  if (act) return finish(w, o.last, y);
  const auto after = w.activated(y, a.act);
  return after && finish(w, o.last, *after);
}

}  // namespace

bool write_binary(OpWriter& w) {
  const auto& a = w.attrs<BinaryAttrs>();
  SubgraphWriter& s = w.subgraph();
  Operands o = operands(w, 0, 1);
  const auto code = binary_code(a.fn);
  const DType from = w.in_type(0).dtype;
  const bool quantized = w.in_type(0).quant && w.in_type(1).quant && (gives_bool(a.fn) || w.out_type(0).quant);
  // MAXIMUM and MINIMUM keep the parameters of their operands.
  const bool same = same_quant_params(w.in_type(0).quant, w.out_type(0).quant) &&
                    same_quant_params(w.in_type(1).quant, w.out_type(0).quant);
  const bool order = a.fn == Binary::kMax || a.fn == Binary::kMin;
  if (quantized && code && takes_quantized(a.fn) && a.alpha == 1 && (!order || same) &&
      w.in_type(0).dtype == w.in_type(1).dtype)
    return write_quantized_binary(w, a, o, *code);
  o.a = s.dequantize(o.a);
  o.b = s.dequantize(o.b);
  // PRelu slopes and exponents may have another type than what they apply to.
  if (!gives_bool(a.fn)) o.b = s.cast(o.b, s.at(o.a).dtype);
  const bool widen = !w.in_type(0).quant && s.file().prefer_int8 && arithmetic_type(from, a.fn) != from;
  if (widen) {
    o.a = s.cast(o.a, arithmetic_type(from, a.fn));
    o.b = s.cast(o.b, arithmetic_type(from, a.fn));
  }
  // The int64 values 2^63 less have the order of uint64 values.
  const bool shift = widen && from == DType::kU64 && compares(a.fn);
  const auto shifted = [&](int x) { return shift ? w.sub(x, w.number_like(x, -0x1p63)) : x; };
  o.a = shifted(o.a);
  o.b = shifted(o.b);
  if (a.alpha != 1) o.b = w.mul(o.b, w.number_like(o.b, a.alpha));
  if (a.fn == Binary::kLogicalAnd || a.fn == Binary::kLogicalOr || a.fn == Binary::kLogicalXor) {
    o.a = s.cast(o.a, DType::kBool);
    o.b = s.cast(o.b, DType::kBool);
  }
  int y = -1;
  std::optional<tfl::ActivationFunctionType> act = tfl::ActivationFunctionType::NONE;
  if (code && a.takes_activation()) {
    act = fused_activation(a.act);
    const auto fused = act.value_or(tfl::ActivationFunctionType::NONE);
    y = s.add(*code, {o.a, o.b}, s.at(o.a).dtype, arithmetic_options(*code, fused, a.pot_scale));
  } else if (code) {
    y = s.add(*code, {o.a, o.b}, gives_bool(a.fn) ? DType::kBool : s.at(o.a).dtype);
  } else {
    const auto formula = binary_formula(w, a.fn, o.a, o.b);
    if (!formula) return false;
    y = *formula;
  }
  if (!act) {
    const auto after = w.activated(y, a.act);
    if (!after) return false;
    y = *after;
  }
  if (!gives_bool(a.fn)) y = shifted(y);
  if (widen && !gives_bool(a.fn)) y = s.cast(y, s.file_type(w.out_type(0)).first);
  return finish(w, o.last, y);
}

bool write_where(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const QuantPtr& quant = w.out_type(0).quant;
  const bool same = same_quant_params(w.in_type(1).quant, quant) && same_quant_params(w.in_type(2).quant, quant);
  const int a = same ? w.in(1) : w.real(1), b = same ? w.in(2) : w.real(2);
  const auto options = options_of<tfl::SelectV2Options>([](auto& fbb) { return tfl::CreateSelectV2Options(fbb); });
  w.out(0, s.add(Code::SELECT_V2, {w.in(0), a, b}, s.at(a).dtype, options, same ? s.at(a).quant : nullptr));
  return true;
}

bool write_clamp(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const bool last = s.is_channels_last(w.id(0));
  int y = s.dequantize(last ? w.in_last(0) : w.in(0));
  const auto lower = w.has(1) ? w.number(1) : std::optional<double>(-INFINITY);
  const auto upper = w.has(2) ? w.number(2) : std::optional<double>(INFINITY);
  if (lower && upper && s.at(y).dtype == DType::kF32) {
    // RELU and its kin are single operators.
    const auto named = w.activated(y, {ActKind::kClamp, static_cast<float>(*lower), static_cast<float>(*upper)});
    return named && finish(w, last, *named);
  }
  for (const int i : {1, 2}) {
    if (!w.has(i)) continue;
    const auto bound = w.number(i);
    if (!bound && last) return false;
    const int limit = bound ? w.number_like(y, *bound) : w.real(i);
    y = w.binary(i == 1 ? Code::MAXIMUM : Code::MINIMUM, y, limit);
  }
  return finish(w, last, y);
}

bool write_cast(OpWriter& w) {
  const auto& a = w.attrs<CastAttrs>();
  SubgraphWriter& s = w.subgraph();
  const bool last = s.is_channels_last(w.id(0));
  int x = last ? w.in_last(0) : w.in(0);
  const DType from = w.in_type(0).dtype, to = s.file_type(w.out_type(0)).first;
  if (from == DType::kString || a.to == DType::kString || a.round || tensor_type(to) == tfl::TensorType::RESOURCE)
    return false;
  // What is held as float32 does not round: 8- and 4-bit floats have no form.
  if ((is_float(a.to) && bit_width(a.to) < 16) || (is_float(from) && bit_width(from) < 16)) return false;
  if (w.in_type(0).quant && s.at(x).dtype != from) return false;
  if (is_float(from) && a.to == DType::kBool)
    return finish(w, last, w.compare(Code::NOT_EQUAL, x, w.number_like(x, 0)));
  return finish(w, last, s.cast(x, to));
}

bool write_bit_cast(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &y = w.out_type(0);
  if (x.dtype == y.dtype && !x.quant && y.quant) {
    s.bind(w.out_id(0), s.quantized(w.id(0), y.quant));
    return true;
  }
  if (x.dtype == y.dtype && x.quant && !y.quant) {
    s.bind_quantized(w.out_id(0), w.in(0));
    return true;
  }
  if (s.file_type(x).first != x.dtype || s.file_type(y).first != y.dtype) return false;
  return w.emit(Code::BITCAST, {w.in(0)},
                options_of<tfl::BitcastOptions>([](auto& b) { return tfl::CreateBitcastOptions(b); }));
}

bool write_quantize(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  // Written where a node asks for the rounded values: some kernels round themselves.
  if (is_per_token(w.out_type(0))) return is_integer(w.out_type(0).dtype);
  if (!is_per_tensor(w.out_type(0).quant)) return false;
  const auto [dtype, quant] = s.file_type(w.out_type(0));
  const bool last = s.is_channels_last(w.id(0));
  return finish(w, last, s.quantize(last ? w.in_last(0) : w.in(0), dtype, quant));
}

bool write_dequantize(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const bool last = s.is_channels_last(w.id(0));
  return finish(w, last, s.dequantize(last ? w.in_last(0) : w.in(0)));
}

namespace {

/// Constant parameters of a QuantizeLinear or DequantizeLinear; null if they are dynamic or of a kind that tensors of
/// the format don't have.
QuantPtr linear_parameters(OpWriter& w) {
  QuantPtr q = formats::linear_quant(w);
  return q && std::ranges::all_of(q->scales, [](float s) { return s > 0; }) ? q : nullptr;
}

/// True if a tensor of the format may have these parameters: those of int16 are symmetric.
bool is_quantizable(DType dtype, const QuantPtr& quant) {
  if (dtype == DType::kI16) return std::ranges::all_of(quant->zero_points, [](int32_t z) { return z == 0; });
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI4;
}

/// Scale and zero point as float32 tensors that broadcast with x.
std::optional<std::pair<int, int>> broadcast_parameters(OpWriter& w) {
  const auto& a = w.attrs<QuantizeLinearAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (a.block != 0 || !w.in_type(1).ranked || w.rank(1) > 1) return std::nullopt;
  const auto shaped = [&](int i) {
    const int x = s.cast(w.in(i), DType::kF32);
    if (w.rank(i) == 0 || !w.in_type(0).ranked) return x;
    std::vector<int64_t> shape(static_cast<size_t>(w.rank(0)), 1);
    shape[static_cast<size_t>(a.axis < 0 ? a.axis + w.rank(0) : a.axis)] = w.in_type(i).shape[0];
    return w.in_type(i).shape[0] == 1 ? s.reshape(x, {}) : s.reshape(x, shape);
  };
  if (w.rank(1) == 1 && (!w.in_type(0).ranked || w.in_type(1).shape[0] < 0)) return std::nullopt;
  return std::pair{shaped(1), w.has(2) ? shaped(2) : s.f32(0)};
}

}  // namespace

bool write_quantize_linear(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const auto& a = w.attrs<QuantizeLinearAttrs>();
  const DType to = w.out_type(0).dtype;
  if (!is_integer(to)) return false;
  const QuantPtr quant = linear_parameters(w);
  if (is_per_tensor(quant) && is_quantizable(to, quant) && !w.in_type(0).quant) {
    ValueType as = w.out_type(0);
    as.quant = quant;
    const auto [dtype, file_quant] = s.file_type(as);
    s.bind_quantized(w.out_id(0), s.quantize(w.in(0), dtype, file_quant));
    return true;
  }
  const auto parameters = broadcast_parameters(w);
  if (!parameters || w.in_type(0).quant || !is_float(w.in_type(0).dtype)) return false;
  const auto lo = static_cast<double>(a.quant_min != a.quant_max ? a.quant_min : int_min(to));
  const auto hi = static_cast<double>(a.quant_min != a.quant_max ? a.quant_max : int_max(to));
  const int steps =
      a.reciprocal ? w.mul({w.in(0), w.div(s.f32(1), parameters->first)}) : w.div(w.in(0), parameters->first);
  int y = w.add(w.call(Code::ROUND, {steps}), parameters->second);
  y = w.binary(Code::MINIMUM, {w.binary(Code::MAXIMUM, y, s.f32(lo)), s.f32(hi)});
  w.out(0, s.cast(y, to));
  return true;
}

bool write_dequantize_linear(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const QuantPtr quant = linear_parameters(w);
  const DType from = w.in_type(0).dtype;
  if (w.in_type(0).quant || !is_integer(from)) return false;
  const bool per_tensor = is_per_tensor(quant) && is_quantizable(from, quant);
  if (per_tensor || (quant && w.constant(0))) {
    w.out(0, s.dequantize(s.quantized(w.id(0), quant)));
    return true;
  }
  const auto parameters = broadcast_parameters(w);
  if (!parameters) return false;
  const int x = s.cast(w.in(0), DType::kF32);
  w.out(0, w.mul(w.sub(x, parameters->second), parameters->first));
  return true;
}

bool write_fake_quant(OpWriter& w) {
  const auto& a = w.attrs<FakeQuantAttrs>();
  return w.emit(Code::FAKE_QUANT, {w.in(0)}, options_of<tfl::FakeQuantOptions>([=](auto& b) {
                  return tfl::CreateFakeQuantOptions(b, a.min, a.max, static_cast<int32_t>(a.bits), a.narrow_range);
                }));
}

/// The identity unless it trains.
bool write_dropout(OpWriter& w) {
  if (w.wants(1)) return false;
  if (w.has(2)) {
    const auto training = w.number(2);
    if (!training || *training != 0) return false;
  }
  w.out(0, w.in(0));
  return true;
}

}  // namespace smelt::tflite
