// Element-wise operators of ai.onnx.
#include "formats/onnx/ops.h"
#include "ops/elementwise/elementwise.h"
#include "ops/softmax/softmax.h"

namespace smelt::onnx {
namespace {

void emit_unary(NodeContext& n, Unary fn, double a = 0, double b = 0, double c = 0) {
  n.emit(Op::kUnary, UnaryAttrs(fn, a, b, c), {n.in(0)});
}

template <Unary fn>
void lower_unary(NodeContext& n) {
  emit_unary(n, fn);
}
void lower_leaky_relu(NodeContext& n) { emit_unary(n, Unary::kLeakyRelu, n.f("alpha", 0.01f)); }
void lower_elu(NodeContext& n) { emit_unary(n, Unary::kElu, n.f("alpha", 1), 1, 1); }
void lower_celu(NodeContext& n) { emit_unary(n, Unary::kCelu, n.f("alpha", 1)); }
void lower_selu(NodeContext& n) {
  const bool old = n.version() < 6;
  emit_unary(n, Unary::kSelu, n.f("alpha", old ? 1.6732f : 1.67326319217681884765625f),
             n.f("gamma", old ? 1.0507f : 1.05070102214813232421875f));
}
void lower_thresholded_relu(NodeContext& n) { emit_unary(n, Unary::kThresholdedRelu, n.f("alpha", 1), 0); }
void lower_hard_sigmoid(NodeContext& n) { emit_unary(n, Unary::kHardSigmoid, n.f("alpha", 0.2f), n.f("beta", 0.5)); }
void lower_softplus(NodeContext& n) { emit_unary(n, Unary::kSoftplus, 1, 0); }
void lower_shrink(NodeContext& n) { emit_unary(n, Unary::kShrink, n.f("lambd", 0.5), n.f("bias", 0)); }
void lower_swish(NodeContext& n) { emit_unary(n, Unary::kSilu, n.f("alpha", 1)); }
void lower_is_inf(NodeContext& n) {
  emit_unary(n, Unary::kIsInf, static_cast<double>(n.i("detect_positive", 1)),
             static_cast<double>(n.i("detect_negative", 1)));
}
void lower_gelu(NodeContext& n) {
  const std::string approximate = n.s("approximate", "none");
  if (approximate != "none" && approximate != "tanh") n.fail("approximate is '", approximate, "'");
  emit_unary(n, approximate == "tanh" ? Unary::kGeluTanh : Unary::kGelu);
}

/// Brings b to a shape that broadcasts against a under the rule before opset 7: b's dimensions match a's from `axis`.
ValueId old_broadcast(NodeContext& n, ValueId a, ValueId b) {
  if (n.version() >= 7 || n.i("broadcast", 0) == 0 || !n.has_attr("axis")) return b;
  const int ra = n.rank_or_fail(a), rb = n.rank_or_fail(b);
  int64_t axis = n.i("axis");
  if (axis < 0) axis += ra;
  std::vector<int64_t> ones;
  for (int64_t k = axis + rb; k < ra; ++k) ones.push_back(rb + k - axis - rb);
  return n.unsqueeze(b, ones);
}

template <Binary fn>
void lower_binary(NodeContext& n) {
  const ValueId a = n.in(0);
  const ValueId b = old_broadcast(n, a, n.in(1));
  const DType da = n.dtype(a), db = n.dtype(b);
  if (fn != Binary::kPow && da != DType::kInvalid && db != DType::kInvalid && da != db)
    return n.fail("inputs are ", to_string(da), " and ", to_string(db), ", one type expected");
  n.emit(Op::kBinary, BinaryAttrs(fn), {a, b});
}

void lower_mod(NodeContext& n) {
  n.emit(Op::kBinary, BinaryAttrs(n.flag("fmod") ? Binary::kFmod : Binary::kMod), {n.in(0), n.in(1)});
}

void lower_bit_shift(NodeContext& n) {
  const std::string direction = n.s("direction");
  if (direction != "LEFT" && direction != "RIGHT") n.fail("direction is '", direction, "', LEFT or RIGHT expected");
  // From opset 28 on, signed values shift arithmetically.
  n.emit(Op::kBinary, BinaryAttrs(direction == "LEFT" ? Binary::kShiftLeft : Binary::kShiftRight), {n.in(0), n.in(1)});
}

void lower_prelu(NodeContext& n) {
  const ValueId x = n.in(0);
  ValueId slope = n.in(1);
  if (n.version() < 7) {
    const int rx = n.rank(x), rs = n.rank(slope);
    if (rx > 2 && rs == 1) {
      std::vector<int64_t> ones;
      for (int k = 1; k < rx - 1; ++k) ones.push_back(k);
      slope = n.unsqueeze(slope, ones);
    }
  }
  n.emit(Op::kBinary, BinaryAttrs(Binary::kPRelu), {x, slope});
}

void lower_variadic(NodeContext& n) {
  const std::string_view op = n.op();
  const Binary fn = op == "Max" ? Binary::kMax : op == "Min" ? Binary::kMin : Binary::kAdd;
  const auto in = n.all_inputs();
  if (in.empty()) return n.fail("has no inputs");
  for (const ValueId id : in)
    if (id == kNoValue) return n.fail("an input is missing");
  ValueId sum = in[0];
  for (size_t i = 1; i < in.size(); ++i) sum = n.binary(fn, sum, in[i]);
  if (op == "Mean")
    sum = n.binary(Binary::kDiv, sum, n.scalar_like(sum, static_cast<double>(in.size())));
  else if (in.size() == 1)
    sum = n.unary(Unary::kIdentity, sum);
  n.bind(0, sum);
}

void lower_where(NodeContext& n) { n.emit(Op::kWhere, {n.in(0), n.in(1), n.in(2)}); }

void lower_clip(NodeContext& n) {
  const ValueId x = n.in(0);
  if (n.version() >= 11) return n.emit(Op::kClamp, {x, n.opt(1), n.opt(2)});
  const ValueId lo = n.has_attr("min") ? n.scalar_like(x, n.f("min")) : kNoValue;
  const ValueId hi = n.has_attr("max") ? n.scalar_like(x, n.f("max")) : kNoValue;
  n.emit(Op::kClamp, {x, lo, hi});
}

DType old_dtype(const std::string& name) {
  static constexpr const char* kNames[] = {"FLOAT",  "UINT8", "INT8",    "UINT16", "INT16",  "INT32", "INT64",
                                           "STRING", "BOOL",  "FLOAT16", "DOUBLE", "UINT32", "UINT64"};
  for (size_t k = 0; k < std::size(kNames); ++k)
    if (name == kNames[k]) return dtype_of(static_cast<int64_t>(k) + 1);
  return DType::kInvalid;
}

void cast_to(NodeContext& n, DType to) {
  CastAttrs a;
  a.to = to;
  a.saturate = n.flag("saturate", true);
  const std::string mode = n.s("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") n.fail("round_mode is '", mode, "'");
  a.round_mode = mode == "down" ? 1 : mode == "nearest" ? 2 : 0;
  a.round = is_integer(to) && bit_width(to) < 8;  // as ONNX Runtime does; the standard does not say
  n.emit(Op::kCast, a, {n.in(0)});
}

void lower_cast(NodeContext& n) {
  if (!n.has_attr("to")) return n.fail("attribute 'to' is missing");
  const DType to = n.version() < 6 ? old_dtype(n.s("to")) : dtype_of(n.i("to"));
  if (to == DType::kInvalid) return n.fail("attribute 'to' names no element type");
  cast_to(n, to);
}

void lower_cast_like(NodeContext& n) {
  const DType to = n.dtype(n.in(1));
  if (to == DType::kInvalid) return n.unsupported("the element type of input 1 must be known at load");
  cast_to(n, to);
}

void lower_bit_cast(NodeContext& n) {
  const DType to = dtype_of(n.i("to"));
  if (to == DType::kInvalid) return n.fail("attribute 'to' names no element type");
  if (const DType from = n.dtype(n.in(0)); from != DType::kInvalid && bit_width(from) != bit_width(to))
    return n.fail("element types ", to_string(from), " and ", to_string(to), " differ in size");
  n.emit(Op::kBitCast, CastAttrs(to), {n.in(0)});
}

void lower_softmax(NodeContext& n) {
  SoftmaxAttrs a;
  a.kind = n.op() == "LogSoftmax" ? SoftmaxAttrs::Kind::kLogSoftmax
           : n.op() == "Hardmax"  ? SoftmaxAttrs::Kind::kHardmax
                                  : SoftmaxAttrs::Kind::kSoftmax;
  a.flatten = n.version() < 13;
  a.axis = n.i("axis", a.flatten ? 1 : -1);
  n.emit(Op::kSoftmax, a, {n.in(0)});
}

/// Operators of early experimental exports.
void lower_scaled_tanh(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto mul = make_attrs<BinaryAttrs>(Binary::kMul);
  const ValueId t = n.unary(Unary::kTanh, n.add(Op::kBinary, mul, {x, n.scalar_like(x, n.f("beta", 1))}));
  n.bind(0, n.add(Op::kBinary, mul, {t, n.scalar_like(x, n.f("alpha", 1))}));
}
void lower_affine(NodeContext& n) {
  const ValueId x = n.in(0);
  const ValueId scaled = n.binary(Binary::kMul, x, n.scalar_like(x, n.f("alpha", 1)));
  n.bind(0, n.binary(Binary::kAdd, scaled, n.scalar_like(x, n.f("beta", 0))));
}

/// Operators of the first releases that a few old files still hold.
void lower_image_scaler(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto bias = n.floats("bias");
  Tensor b(DType::kF32, Shape{static_cast<int64_t>(bias.size()), 1, 1});
  std::copy(bias.begin(), bias.end(), b.data<float>());
  const ValueId scaled = n.binary(Binary::kMul, x, n.scalar_like(x, n.f("scale", 1)));
  n.emit(Op::kBinary, BinaryAttrs(Binary::kAdd), {scaled, n.cast(n.constant(std::move(b)), n.dtype(x))});
}

void lower_scale(NodeContext& n) {
  const ValueId x = n.in(0);
  n.emit(Op::kBinary, BinaryAttrs(Binary::kMul), {x, n.scalar_like(x, n.f("scale", 1))});
}

void lower_parametric_softplus(NodeContext& n) {
  const ValueId x = n.in(0);
  const auto times = [&](ValueId v, const char* name) {
    return n.binary(Binary::kMul, v, n.scalar_like(v, n.f(name, 1)));
  };
  n.bind(0, times(n.unary(Unary::kSoftplus, times(x, "beta"), 1.0, 0.0), "alpha"));
}

void lower_swiglu(NodeContext& n) {
  const ValueId gate = n.unary(Unary::kSilu, n.in(0), n.f("alpha", 1));
  n.emit(Op::kBinary, BinaryAttrs(Binary::kMul), {gate, n.in(1)});
}

constexpr OpEntry kOps[] = {
    {"Abs", 1, lower_unary<Unary::kAbs>},
    {"Neg", 1, lower_unary<Unary::kNeg>},
    {"Sign", 9, lower_unary<Unary::kSign>},
    {"Floor", 1, lower_unary<Unary::kFloor>},
    {"Ceil", 1, lower_unary<Unary::kCeil>},
    {"Round", 11, lower_unary<Unary::kRound>},
    {"Sqrt", 1, lower_unary<Unary::kSqrt>},
    {"Reciprocal", 1, lower_unary<Unary::kReciprocal>},
    {"Exp", 1, lower_unary<Unary::kExp>},
    {"Log", 1, lower_unary<Unary::kLog>},
    {"Sin", 7, lower_unary<Unary::kSin>},
    {"Cos", 7, lower_unary<Unary::kCos>},
    {"Tan", 7, lower_unary<Unary::kTan>},
    {"Asin", 7, lower_unary<Unary::kAsin>},
    {"Acos", 7, lower_unary<Unary::kAcos>},
    {"Atan", 7, lower_unary<Unary::kAtan>},
    {"Sinh", 9, lower_unary<Unary::kSinh>},
    {"Cosh", 9, lower_unary<Unary::kCosh>},
    {"Tanh", 1, lower_unary<Unary::kTanh>},
    {"Asinh", 9, lower_unary<Unary::kAsinh>},
    {"Acosh", 9, lower_unary<Unary::kAcosh>},
    {"Atanh", 9, lower_unary<Unary::kAtanh>},
    {"Erf", 9, lower_unary<Unary::kErf>},
    {"Sigmoid", 1, lower_unary<Unary::kSigmoid>},
    {"Relu", 1, lower_unary<Unary::kRelu>},
    {"Softsign", 1, lower_unary<Unary::kSoftsign>},
    {"HardSwish", 14, lower_unary<Unary::kHardSwish>},
    {"Mish", 18, lower_unary<Unary::kMish>},
    {"Not", 1, lower_unary<Unary::kNot>},
    {"BitwiseNot", 18, lower_unary<Unary::kBitNot>},
    {"IsNaN", 9, lower_unary<Unary::kIsNan>},
    {"LeakyRelu", 1, lower_leaky_relu},
    {"Elu", 1, lower_elu},
    {"Celu", 12, lower_celu},
    {"Selu", 1, lower_selu},
    {"ThresholdedRelu", 1, lower_thresholded_relu},
    {"HardSigmoid", 1, lower_hard_sigmoid},
    {"Softplus", 1, lower_softplus},
    {"Shrink", 9, lower_shrink},
    {"Swish", 24, lower_swish},
    {"IsInf", 10, lower_is_inf},
    {"Gelu", 20, lower_gelu},
    {"Add", 1, lower_binary<Binary::kAdd>},
    {"Sub", 1, lower_binary<Binary::kSub>},
    {"Mul", 1, lower_binary<Binary::kMul>},
    {"Div", 1, lower_binary<Binary::kDiv>},
    {"Pow", 1, lower_binary<Binary::kPow>},
    {"And", 1, lower_binary<Binary::kLogicalAnd>},
    {"Or", 1, lower_binary<Binary::kLogicalOr>},
    {"Xor", 1, lower_binary<Binary::kLogicalXor>},
    {"BitwiseAnd", 18, lower_binary<Binary::kBitAnd>},
    {"BitwiseOr", 18, lower_binary<Binary::kBitOr>},
    {"BitwiseXor", 18, lower_binary<Binary::kBitXor>},
    {"Equal", 1, lower_binary<Binary::kEqual>},
    {"Less", 1, lower_binary<Binary::kLess>},
    {"LessOrEqual", 12, lower_binary<Binary::kLessEqual>},
    {"Greater", 1, lower_binary<Binary::kGreater>},
    {"GreaterOrEqual", 12, lower_binary<Binary::kGreaterEqual>},
    {"Mod", 10, lower_mod},
    {"BitShift", 11, lower_bit_shift},
    {"PRelu", 1, lower_prelu},
    {"Max", 1, lower_variadic},
    {"Min", 1, lower_variadic},
    {"Sum", 1, lower_variadic},
    {"Mean", 1, lower_variadic},
    {"Where", 9, lower_where},
    {"Clip", 1, lower_clip},
    {"Cast", 1, lower_cast},
    {"CastLike", 15, lower_cast_like},
    {"BitCast", 26, lower_bit_cast},
    {"Softmax", 1, lower_softmax},
    {"LogSoftmax", 1, lower_softmax},
    {"Hardmax", 1, lower_softmax},
    {"ScaledTanh", 1, lower_scaled_tanh},
    {"Affine", 1, lower_affine},
    {"ImageScaler", 1, lower_image_scaler},
    {"Scale", 1, lower_scale},
    {"ParametricSoftplus", 1, lower_parametric_softplus},
    {"SwiGLU", 28, lower_swiglu},
};

}  // namespace

std::span<const OpEntry> elementwise_ops() { return kOps; }

}  // namespace smelt::onnx
