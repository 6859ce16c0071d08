// com.microsoft: quantized operators.
#include <cmath>

#include "base/checked.h"
#include "formats/onnx/attr_readers.h"
#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/common/quantized_pair.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/pool/pool.h"
#include "ops/recurrent/recurrent.h"
#include "ops/reduce/reduce.h"
#include "ops/softmax/softmax.h"
#include "tensor/numeric.h"

namespace smelt::onnx {
namespace {

void lower_qlinear_binary(NodeContext& n) {
  const Binary fn = n.op() == "QLinearAdd" ? Binary::kAdd : Binary::kMul;
  emit_quantized(n, Op::kBinary, make_attrs<BinaryAttrs>(fn), {{0, 1, 2}, {3, 4, 5}}, {-1, 6, 7});
}

void lower_qlinear_unary(NodeContext& n) {
  const bool sigmoid = n.op() == "QLinearSigmoid";
  const auto attrs =
      make_attrs<UnaryAttrs>(sigmoid ? Unary::kSigmoid : Unary::kLeakyRelu, sigmoid ? 0.0 : n.f("alpha", 0.01f));
  emit_quantized(n, Op::kUnary, attrs, {{0, 1, 2}}, {-1, 3, 4});
}

void lower_qlinear_softmax(NodeContext& n) {
  SoftmaxAttrs a;
  a.axis = n.i("axis", -1);
  a.flatten = n.i("opset", 13) < 13;
  emit_quantized(n, Op::kSoftmax, pack(a), {{0, 1, 2}}, {-1, 3, 4});
}

void lower_qlinear_pool(NodeContext& n) {
  PoolAttrs a;
  a.kind = PoolKind::kAverage;
  a.layout = n.flag("channels_last") ? Layout::kChannelsLast : Layout::kChannelsFirst;
  if (n.op() == "QLinearGlobalAveragePool") {
    a.global = true;
  } else {
    a.kernel = n.ints("kernel_shape");
    const size_t s = a.kernel.size();
    a.strides = spatial_list(n, "strides", s, 1);
    a.dilations.assign(s, 1);
    a.pads = spatial_list(n, "pads", 2 * s, 0);
    a.auto_pad = auto_pad(n);
    a.ceil_mode = n.flag("ceil_mode");
    a.count_include_pad = n.flag("count_include_pad");
    // With padding counted, so are positions that ceil_mode adds behind it.
    if (a.count_include_pad) {
      a.divisor_override = 1;
      for (const int64_t k : a.kernel) a.divisor_override = checked_mul(a.divisor_override, k).value_or(0);
    }
  }
  emit_quantized(n, Op::kPool, pack(a), {{0, 1, 2}}, {-1, 3, 4});
}

void lower_nhwc_max_pool(NodeContext& n) {
  PoolAttrs a;
  a.layout = Layout::kChannelsLast;
  a.kernel = n.ints("kernel_shape");
  const size_t s = a.kernel.size();
  a.strides = spatial_list(n, "strides", s, 1);
  a.dilations = spatial_list(n, "dilations", s, 1);
  a.pads = spatial_list(n, "pads", 2 * s, 0);
  a.auto_pad = auto_pad(n);
  a.ceil_mode = n.flag("ceil_mode");
  n.emit(Op::kPool, a, {n.in(0)});
}

void lower_qlinear_concat(NodeContext& n) {
  if (n.inputs() < 5 || n.inputs() % 3 != 2) return n.fail("has ", n.inputs(), " inputs, 2 and 3 an operand expected");
  std::vector<QuantArg> args;
  for (int k = 2; k < n.inputs(); k += 3) args.push_back({k, k + 1, k + 2});
  emit_quantized(n, Op::kConcat, make_attrs<AxisAttrs>(n.i("axis", 0)), args, {-1, 0, 1});
}

void lower_qlinear_where(NodeContext& n) {
  const ValueId x = dequantized(n, {1, 2, 3}), y = dequantized(n, {4, 5, 6});
  n.bind(0, quantized(n, n.where(n.in(0), x, y), {-1, 7, 8}, DType::kU8));
}

void lower_qlinear_reduce_mean(NodeContext& n) {
  ReduceAttrs a;
  a.fn = Reduction::kMean;
  a.keep_dims = n.flag("keepdims", true);
  std::vector<ValueId> rest;
  if (n.has_attr("axes")) rest.push_back(n.i64(n.ints("axes")));
  emit_quantized(n, Op::kReduce, pack(a), {{0, 1, 2}}, {-1, 3, 4}, rest);
}

void lower_qgemm(NodeContext& n) {
  MatMulAttrs a;
  a.alpha = n.f("alpha", 1);
  a.transpose_a = n.flag("transA");
  a.transpose_b = n.flag("transB");
  const int axis = a.transpose_b ? 0 : 1;
  const QuantPtr qa = const_quant(n, 1, 2), qb = const_quant(n, 4, 5, axis);
  const QuantPtr qy = n.has(7) ? const_quant(n, 7, 8) : nullptr;
  if (qa && qb && qy && qa->scales.size() == 1 && qy->scales.size() == 1 && a.alpha == 1 && !a.transpose_a) {
    std::vector<ValueId> in{n.typed(0, qa), n.typed(3, qb)};
    if (n.has(6)) {
      Quantization bias;
      bias.kind = qb->kind;
      for (const float s : qb->scales) bias.scales.push_back(qa->scale() * s);
      in.push_back(n.typed(6, std::make_shared<const Quantization>(std::move(bias))));
    }
    ValueType type;
    type.dtype = quantized_type(n, 8, n.dtype(n.in(0)));
    type.quant = qy;
    return n.bind_typed(0, n.add_as(Op::kMatMul, a, in, type));
  }
  std::vector<ValueId> in{dequantized(n, {0, 1, 2}), dequantized(n, {3, 4, 5}, axis)};
  if (n.has(6)) {
    ValueId scale = n.binary(Binary::kMul, n.in(1), n.in(4));
    scale = n.binary(Binary::kMul, scale, n.scalar_like(scale, a.alpha));
    in.push_back(n.binary(Binary::kMul, n.cast(n.in(6), DType::kF32), scale));
  }
  const ValueId y = n.add(Op::kMatMul, a, in);
  n.bind(0, n.has(7) ? quantized(n, y, {-1, 7, 8}, n.dtype(n.in(0))) : y);
}

ValueId plus_optional(NodeContext& n, ValueId y, int bias) {
  return n.has(bias) ? n.binary(Binary::kAdd, y, n.in(bias)) : y;
}

void lower_dynamic_quantize_matmul(NodeContext& n) {
  const auto q = n.add_n(Op::kDynamicQuantize, DynamicQuantizeAttrs(), {n.in(0)}, 3);
  QuantizeLinearAttrs real;
  real.to = DType::kF32;
  const ValueId a = n.add(Op::kDequantizeLinear, real, q);
  const ValueId b = dequantized(n, {1, 2, 3}, std::max(0, n.rank(n.in(1)) - 1));
  n.bind(0, plus_optional(n, n.add(Op::kMatMul, MatMulAttrs(), {a, b}), 4));
}

void lower_matmul_integer_to_float(NodeContext& n) {
  const ValueId a = dequantized(n, {0, 2, 4}, std::max(0, n.rank(n.in(0)) - 2));
  const ValueId b = dequantized(n, {1, 3, 5}, std::max(0, n.rank(n.in(1)) - 1));
  n.bind(0, plus_optional(n, n.add(Op::kMatMul, MatMulAttrs(), {a, b}), 6));
}

void lower_matmul_integer16(NodeContext& n) {
  const ValueId a = n.cast(n.in(0), DType::kI32), b = n.cast(n.in(1), DType::kI32);
  n.bind(0, n.add(Op::kMatMul, MatMulAttrs(), {a, b}));
}

/// Zero points, one a block; rows of packed ones are padded to whole bytes.
bool read_zero_points(NodeContext& n, const Blocks& s, int input, std::vector<double>& out) {
  out.assign(static_cast<size_t>(s.n * s.blocks), std::exp2(static_cast<double>(s.bits - 1)));
  if (!n.has(input)) return true;
  const Tensor* t = n.const_tensor(input);
  if (!t) {
    n.unsupported("computed zero points");
    return false;
  }
  if (t->dtype() != DType::kU8) {
    if (t->elements() != s.n * s.blocks)
      n.fail(t->elements(), " zero points, ", s.n * s.blocks, " expected");
    else
      to_doubles(*t, out.data());
    return n.ok();
  }
  const int64_t row = ceil_div(s.blocks * s.bits, 8);
  if (t->elements() != s.n * row) {
    n.fail("zero points have ", t->elements(), " bytes, ", s.n * row, " expected");
    return false;
  }
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t b = 0; b < s.blocks; ++b)
      out[i * s.blocks + b] = static_cast<double>(packed_code(t->data<uint8_t>() + i * row, b, s.bits));
  return true;
}

/// The whole weights as float32, for what the typed form can't express.
ValueId decode_weights(NodeContext& n, const Blocks& s, const Tensor& b, const std::vector<float>& scales,
                       const std::vector<double>& zeros, const std::vector<int64_t>& groups) {
  auto t = Tensor::allocate(DType::kF32, Shape{s.n, s.k});
  if (!t.ok()) {
    n.fail(t.error());
    return kNoValue;
  }
  const int64_t row = s.blocks * s.block * s.bits / 8;
  for (int64_t i = 0; i < s.n; ++i)
    for (int64_t k = 0; k < s.k; ++k) {
      const int64_t g = groups.empty() ? k / s.block : groups[k];
      if (g < 0 || g >= s.blocks) {
        n.fail("group ", g, " of ", s.blocks);
        return kNoValue;
      }
      const double q =
          static_cast<double>(packed_code(b.data<uint8_t>() + i * row, k, s.bits)) - zeros[i * s.blocks + g];
      t->data<float>()[i * s.k + k] = static_cast<float>(q) * scales[i * s.blocks + g];
    }
  return n.constant(std::move(*t));
}

/// Weights [N, K] in x's type when they or their parameters are computed.
ValueId dynamic_weights(NodeContext& n, const Blocks& s) {
  const DType dtype = n.dtype(n.in(2));
  const auto blocked = [&](ValueId v, int64_t last) { return n.reshape(v, {s.n, s.blocks, last}); };
  ValueId w = blocked(n.cast(unpack_bits(n, n.in(1), s.bits), dtype), s.block);
  ValueId scales = n.reshape(n.in(2), {s.n, s.blocks});
  ValueId zeros = kNoValue;
  if (n.has(3) && n.dtype(n.in(3)) != DType::kU8)
    zeros = n.reshape(n.cast(n.in(3), dtype), {s.n, s.blocks});
  else if (n.has(3))
    zeros = n.cast(first_of_last(n, unpack_bits(n, n.reshape(n.in(3), {s.n, -1}), s.bits), s.blocks), dtype);
  else
    zeros = n.scalar(dtype, std::exp2(static_cast<double>(s.bits - 1)));
  const bool one_zero = !n.has(3);
  if (n.has(4)) {
    // Each column names its group.
    GatherAttrs along;
    along.axis = 1;
    const ValueId groups = first_of_last(n, n.in(4), s.k);
    const auto spread = [&](ValueId v) { return n.add(Op::kGather, along, {v, groups}); };
    w = first_of_last(n, n.reshape(w, {s.n, -1}), s.k);
    w = n.binary(Binary::kSub, w, one_zero ? zeros : spread(zeros));
    return n.binary(Binary::kMul, w, spread(scales));
  }
  w = n.binary(Binary::kSub, w, one_zero ? zeros : blocked(zeros, 1));
  w = n.binary(Binary::kMul, w, blocked(scales, 1));
  return first_of_last(n, n.reshape(w, {s.n, -1}), s.k);
}

/// True if ONNX Runtime multiplies such weights as integers where accuracy_level allows rows of int8.
bool has_integer_product(const Blocks& s) {
  return s.bits != 2 && s.block >= 16 && s.block <= 256 && (s.block & (s.block - 1)) == 0;
}

void lower_matmul_nbits(NodeContext& n) {
  Blocks s;
  s.n = n.i("N", 0);
  s.k = n.i("K", 0);
  s.bits = n.i("bits", 4);
  s.block = n.i("block_size", 0);
  const bool int8_rows = n.i("accuracy_level", 0) == 4;
  constexpr int64_t kLarge = int64_t{1} << 31;
  if (s.n < 1 || s.k < 1 || s.n > kLarge || s.k > kLarge || (s.bits != 2 && s.bits != 4 && s.bits != 8) ||
      s.block < 8 || s.block > kLarge || s.block % 8 != 0)
    return n.fail("N ", s.n, ", K ", s.k, ", bits ", s.bits, ", block_size ", s.block);
  s.blocks = ceil_div(s.k, s.block);
  MatMulAttrs a;
  a.transpose_b = true;
  const Tensor* b = n.const_tensor(1);
  const auto scales = n.const_floats(2);
  const bool fixed = b && scales && (!n.has(3) || n.const_tensor(3)) && (!n.has(4) || n.const_tensor(4));
  if (!fixed) {
    const ValueId x = n.in(0);
    const ValueId product = n.add(Op::kMatMul, a, {x, n.cast(dynamic_weights(n, s), n.dtype(x))});
    return n.bind(0, plus_optional(n, product, 5));
  }
  if (b->dtype() != DType::kU8 || b->elements() != s.n * s.blocks * (s.block * s.bits / 8))
    return n.fail("weights have shape ", b->shape().str(), ", ", s.n * s.blocks * (s.block * s.bits / 8),
                  " bytes expected");
  if (static_cast<int64_t>(scales->size()) != s.n * s.blocks)
    return n.fail(scales->size(), " scales, ", s.n * s.blocks, " expected");
  std::vector<double> zeros;
  if (!read_zero_points(n, s, 3, zeros)) return;
  std::vector<int64_t> groups;
  if (n.has(4)) {
    const auto g = n.const_ints(4);
    if (!g || static_cast<int64_t>(g->size()) < s.k) return n.fail("g_idx does not have ", s.k, " entries");
    groups = *g;
  }
  bool whole = groups.empty();
  for (const double z : zeros) whole = whole && z == std::floor(z) && std::fabs(z) < 256;
  ValueId w = whole ? typed_weights(n, s, *b, *scales, zeros) : decode_weights(n, s, *b, *scales, zeros, groups);
  if (int8_rows && whole && has_integer_product(s) && (!n.has(3) || n.dtype(n.in(3)) == DType::kU8))
    a.row_block = s.block;
  const ValueId x = n.in(0);
  if (!whole && n.ok() && n.dtype(x) != DType::kInvalid) w = n.cast(w, n.dtype(x));
  n.bind(0, plus_optional(n, n.add(Op::kMatMul, a, {x, w}), 5));
}

void lower_matmul_bnb4(NodeContext& n) {
  // Code books of 4-bit floating point and of 4-bit quantiles of the normal distribution.
  static constexpr float kFp4[16] = {0.0f,         0.0052083333f, 0.6666667f,   1.0f,           0.33333333f, 0.5f,
                                     0.16666667f,  0.25f,         -0.0f,        -0.0052083333f, -0.6666667f, -1.0f,
                                     -0.33333333f, -0.5f,         -0.16666667f, -0.25f};
  static constexpr float kNf4[16] = {-1.0f,        -0.6961928f, -0.52507305f, -0.3949175f, -0.28444138f, -0.18477343f,
                                     -0.09105004f, 0.0f,        0.0795803f,   0.1609302f,  0.2461123f,   0.33791524f,
                                     0.44070983f,  0.562617f,   0.72295684f,  1.0f};
  const int64_t rows = n.i("N", 0), columns = n.i("K", 0), block = n.i("block_size", 0), kind = n.i("quant_type", 1);
  constexpr int64_t kLarge = int64_t{1} << 31;
  if (rows < 1 || columns < 1 || rows > kLarge || columns > kLarge || block < 1 || kind < 0 || kind > 1)
    return n.fail("N ", rows, ", K ", columns, ", block_size ", block, ", quant_type ", kind);
  const Tensor* b = n.const_tensor(1);
  const auto scales = n.const_floats(2);
  if (!b || !scales) return n.unsupported("computed weights or scales");
  const int64_t total = rows * columns;
  if (b->dtype() != DType::kU8 || b->elements() != (total + 1) / 2 ||
      static_cast<int64_t>(scales->size()) != ceil_div(total, block))
    return n.fail("weights or scales do not fit N and K");
  auto t = Tensor::allocate(DType::kF32, Shape{rows, columns});
  if (!t.ok()) return n.fail(t.error());
  const float* book = kind == 0 ? kFp4 : kNf4;
  for (int64_t i = 0; i < total; ++i) {
    const uint8_t byte = b->data<uint8_t>()[i / 2];
    t->data<float>()[i] = book[i % 2 == 0 ? byte >> 4 : byte & 15] * (*scales)[i / block];
  }
  MatMulAttrs a;
  a.transpose_b = n.flag("transB", true);
  const ValueId x = n.in(0);
  const ValueId w = n.constant(std::move(*t));
  n.bind(0, n.add(Op::kMatMul, a, {x, n.dtype(x) == DType::kInvalid ? w : n.cast(w, n.dtype(x))}));
}

void lower_gather_block_quantized(NodeContext& n) {
  GatherBlockQuantizedAttrs a;
  a.gather_axis = n.i("gather_axis", 0);
  a.quantize_axis = n.i("quantize_axis", 1);
  a.block = n.i("block_size", 128);
  a.bits = n.i("bits", 4);
  n.emit(Op::kGatherBlockQuantized, a, n.operands(3, 4));
}

/// Quantization of a matrix of D * 4H rows from scales and zero points [D] or [D, 4H]; nullptr where they or the sizes
/// are not constants of that form.
QuantPtr quant_of_gate_rows(NodeContext& n, const ValueType& w, int scale, int zero) {
  const Tensor *s = n.const_tensor(scale), *z = n.has(zero) ? n.const_tensor(zero) : nullptr;
  if (!w.is_static() || w.shape.rank() != 3 || !is_8bit(w.dtype) || !s || s->dtype() != DType::kF32) return nullptr;
  const int64_t directions = w.shape[0], gates = w.shape[2], rows = directions * gates;
  const auto repeats = [&](const Tensor& t) -> int64_t {
    return t.elements() == rows ? 1 : t.elements() == directions ? gates : 0;
  };
  if (rows < 1 || repeats(*s) == 0 || (n.has(zero) && (!z || z->dtype() != w.dtype || repeats(*z) == 0)))
    return nullptr;
  auto quant = std::make_shared<Quantization>();
  quant->kind = Quantization::Kind::kPerAxis;
  for (int64_t i = 0; i < rows; ++i) {
    const float value = s->data<float>()[i / repeats(*s)];
    if (!std::isnormal(value) || value < 0) return nullptr;
    quant->scales.push_back(value);
    quant->zero_points.push_back(z ? static_cast<int32_t>(get_int(*z, i / repeats(*z))) : 0);
  }
  return quant;
}

/// Weights [D, I, 4H] with scales [D] or [D, 4H], as the recurrent operator wants them: real [D, 4H, I]. Those of
/// constants are made of quantized ones by a Dequantize and a Reshape.
ValueId recurrent_weights(NodeContext& n, int w, int scale, int zero) {
  const ValueType type = n.ok() && n.in(w) != kNoValue ? n.type(n.in(w)) : ValueType{};
  if (const QuantPtr quant = quant_of_gate_rows(n, type, scale, zero); quant && n.const_tensor(w)) {
    const int64_t d = type.shape[0], k = type.shape[1], rows = type.shape[2];
    const ValueId quantized = n.with_quant(n.reshape(n.transpose(n.in(w), {0, 2, 1}), {d * rows, k}), quant);
    return n.reshape(n.add(Op::kDequantize, NoAttrs{}, {quantized}), {d, rows, k});
  }
  const auto widen = [&](ValueId v) { return n.rank(v) == 2 ? n.unsqueeze(v, {1}) : n.unsqueeze(v, {1, 2}); };
  ValueId real = n.cast(n.in(w), DType::kF32);
  if (n.has(zero)) real = n.binary(Binary::kSub, real, widen(n.cast(n.in(zero), DType::kF32)));
  return n.transpose(n.binary(Binary::kMul, real, widen(n.in(scale))), {0, 2, 1});
}

void lower_dynamic_quantize_lstm(NodeContext& n) {
  RecurrentAttrs a;
  a.hidden = n.i("hidden_size", 0);
  a.dynamic_quantization = true;
  const std::string direction = n.s("direction", "forward");
  a.forward = direction != "reverse";
  a.backward = direction != "forward";
  a.clip = n.f("clip", 0);
  a.input_forget = n.flag("input_forget");
  read_activations(n, a);
  std::vector<ValueId> in{n.in(0), recurrent_weights(n, 1, 8, 9), recurrent_weights(n, 2, 10, 11)};
  for (int k = 3; k <= 7; ++k) in.push_back(n.opt(k));
  while (in.back() == kNoValue) in.pop_back();
  n.emit(Op::kRecurrent, a, in);
}

constexpr OpEntry kOps[] = {
    {"QuantizeLinear", 1, lower_quantize_linear},
    {"DequantizeLinear", 1, lower_dequantize_linear},
    {"QLinearAdd", 1, lower_qlinear_binary},
    {"QLinearMul", 1, lower_qlinear_binary},
    {"QLinearSigmoid", 1, lower_qlinear_unary},
    {"QLinearLeakyRelu", 1, lower_qlinear_unary},
    {"QLinearSoftmax", 1, lower_qlinear_softmax},
    {"QLinearAveragePool", 1, lower_qlinear_pool},
    {"QLinearGlobalAveragePool", 1, lower_qlinear_pool},
    {"QLinearConcat", 1, lower_qlinear_concat},
    {"QLinearWhere", 1, lower_qlinear_where},
    {"QLinearReduceMean", 1, lower_qlinear_reduce_mean},
    {"QLinearConv", 1, lower_qlinear_conv},
    {"NhwcMaxPool", 1, lower_nhwc_max_pool},
    {"QGemm", 1, lower_qgemm},
    {"DynamicQuantizeMatMul", 1, lower_dynamic_quantize_matmul},
    {"MatMulIntegerToFloat", 1, lower_matmul_integer_to_float},
    {"MatMulInteger16", 1, lower_matmul_integer16},
    {"MatMulNBits", 1, lower_matmul_nbits},
    {"MatMulBnb4", 1, lower_matmul_bnb4},
    {"GatherBlockQuantized", 1, lower_gather_block_quantized},
    {"DynamicQuantizeLSTM", 1, lower_dynamic_quantize_lstm},
};

}  // namespace

ValueId typed_weights(NodeContext& n, const Blocks& s, const Tensor& b, const std::vector<float>& scales,
                      const std::vector<double>& zeros) {
  Quantization q;
  q.kind = Quantization::Kind::kPerBlock;
  q.axis = 1;
  q.block = s.block;
  q.scales = scales;
  for (const double z : zeros) q.zero_points.push_back(static_cast<int32_t>(z));
  const DType dtype = s.bits == 2 ? DType::kU2 : s.bits == 4 ? DType::kU4 : DType::kU8;
  Tensor w;
  if (s.blocks * s.block == s.k) {
    w = Tensor::view(dtype, Shape{s.n, s.k}, b.raw(), b.owner());
  } else {
    auto t = Tensor::allocate(dtype, Shape{s.n, s.k});
    if (!t.ok()) {
      n.fail(t.error());
      return kNoValue;
    }
    const int64_t row = s.blocks * s.block * s.bits / 8;
    for (int64_t i = 0; i < s.n; ++i)
      for (int64_t k = 0; k < s.k; ++k) set_int(*t, i * s.k + k, packed_code(b.data<uint8_t>() + i * row, k, s.bits));
    w = std::move(*t);
  }
  w.set_quant(std::make_shared<const Quantization>(std::move(q)));
  return n.constant(std::move(w));
}

std::span<const OpEntry> microsoft_quant_ops() { return kOps; }

}  // namespace smelt::onnx
