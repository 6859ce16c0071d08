// Operators that only Vulkan graphs have: et_vk.*, torchao.* and shorthand names.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"
#include "tensor/numeric.h"

namespace smelt::aten {
namespace {

/// prepack(constant): where a GPU copies it to its memory.
void prepack(L& l) { l.result(l.t(0)); }

/// The arguments of convolution, then the bounds of a clamp.
void conv_with_clamp(L& l) {
  constexpr size_t kConvArguments = 9;
  if (l.count() < kConvArguments) return l.fail(InvalidModel(l.count(), " arguments, 11 expected"));
  const Call conv{.name = "aten::convolution",
                  .overload = "default",
                  .args = l.c.args.subspan(0, kConvArguments),
                  .outputs = l.c.outputs,
                  .out_variant = false};
  auto lowered = lower(l.b, conv);
  if (!lowered.ok()) return l.fail(lowered.error());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double lo = l.d(kConvArguments, -kInf), hi = l.d(kConvArguments + 1, kInf);
  l.result(l.unary(Unary::kClamp, lowered->outputs.at(0), lo, hi));
}

/// rms_norm(x, weight, eps): over the last dimension.
void rms_norm(L& l) {
  LayerNormAttrs a;
  a.rms = true;
  a.epsilon = l.d(2, 1e-5);
  const ValueId x = l.t(0);
  l.result(l.op(Op::kLayerNorm, make_attrs<LayerNormAttrs>(a), {x, l.cast(l.t(1), l.dtype(x))}));
}

/// apply_rotary_emb(q, k, cos, sin) of [B, S, H, D] and [S, D/2]: pairs of neighbours turn.
void apply_rotary_emb(L& l) {
  RotaryAttrs a;
  a.interleaved = true;
  a.batch_seq_heads = true;
  for (size_t i : {0, 1}) l.result(l.op(Op::kRotary, make_attrs<RotaryAttrs>(a), {l.t(i), l.t(2), l.t(3)}));
}

/// grid_priors(x, stride, offset).
void grid_priors(L& l) {
  GridPriorsAttrs a;
  a.stride = l.i(1);
  a.offset = l.d(2);
  l.result(l.op(Op::kGridPriors, make_attrs<GridPriorsAttrs>(a), {l.t(0)}));
}

/// The float32 values of a constant; fails when it is none.
std::vector<float> known_floats(L& l, size_t at) {
  ValueId id = l.t(at);
  if (!l.ok()) return {};
  const Tensor* k = l.b.constant_of(id);
  // A widened fp16 constant stands behind its cast.
  if (!k)
    for (const Node& n : l.b.graph().nodes)
      if (n.op == Op::kCast && n.outputs[0] == id) k = l.b.constant_of(n.inputs[0]);
  if (!k) {
    l.fail(Unsupported("argument ", at, " must be a constant"));
    return {};
  }
  std::vector<float> values(static_cast<size_t>(k->elements()));
  to_floats(*k, values.data());
  return values;
}

/// The bytes with their halves swapped.
Tensor swap_halves(const Tensor& bytes) {
  Tensor out = bytes.clone();
  auto* p = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.elements(); ++i) p[i] = static_cast<uint8_t>(p[i] << 4 | p[i] >> 4);
  return out;
}

/// Weights [out, in / 2] of two 4-bit numbers a byte, stored plus 8, the first in the low half unless `high_first`,
/// with scales [in / group, out]. A group of 0 is a whole row. Bytes with the first number low are used as they lie in
/// the file.
ValueId four_bit_weights(L& l, size_t weights_at, size_t scales_at, int64_t group, bool high_first = false) {
  const ValueId id = l.t(weights_at);
  const std::vector<float> scales = known_floats(l, scales_at);
  if (!l.ok()) return kNoValue;
  const Tensor* bytes = l.b.constant_of(id);
  if (!bytes || bytes->rank() != 2 || bit_width(bytes->dtype()) != 8) {
    l.fail(Unsupported("the weights must be constant bytes of rank 2"));
    return kNoValue;
  }
  const int64_t out = bytes->dim(0), in = bytes->dim(1) * 2;
  if (group == 0) group = in;
  const int64_t groups = group > 0 && in % group == 0 ? in / group : 0;
  if (groups == 0 || static_cast<int64_t>(scales.size()) != groups * out) {
    l.fail(InvalidModel(scales.size(), " scales for ", out, " channels of ", in, " inputs in groups of ", group));
    return kNoValue;
  }
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerBlock;
  q->axis = 1;
  q->block = group;
  q->zero_points = {8};
  q->scales.resize(scales.size());
  for (int64_t o = 0; o < out; ++o)
    for (int64_t g = 0; g < groups; ++g)
      q->scales[static_cast<size_t>(o * groups + g)] = scales[static_cast<size_t>(g * out + o)];
  const Tensor stored = high_first ? swap_halves(*bytes) : *bytes;
  Tensor packed = Tensor::view(DType::kU4, Shape{out, in}, stored.raw(), stored.owner());
  packed.set_quant(std::move(q));
  // Bytes that the constant itself owns have no other keeper.
  return l.b.constant("", stored.owner() ? packed : packed.clone());
}

ValueId linear(L& l, ValueId x, ValueId weights, ValueId bias) {
  MatMulAttrs a;
  a.transpose_b = true;
  std::vector<ValueId> in{x, weights};
  if (bias != kNoValue) in.push_back(l.cast(bias, l.dtype(x)));
  return l.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), in);
}

/// linear_q4gsw(x, weights, scales, group, bias?).
void linear_q4gsw(L& l) {
  const ValueId w = four_bit_weights(l, 1, 2, l.i(3));
  l.result(linear(l, l.t(0), w, l.opt(4)));
}

/// linear_qcs4w(x, weights, scales [out]).
void linear_qcs4w(L& l) { l.result(linear(l, l.t(0), four_bit_weights(l, 1, 2, 0, true), kNoValue)); }

/// linear_q4gsw_backward(d_out, weights, scales, group): the gradient of linear_q4gsw's x.
void linear_q4gsw_backward(L& l) {
  const ValueId w = four_bit_weights(l, 1, 2, l.i(3));
  l.result(l.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {l.t(0), w}));
}

/// linear_dq8ca_q4gsw(x, x_scale, x_zero_point, weights, weight_sums, scales, group, bias?): x goes through int8 with
/// one scale and zero point a row.
void linear_dq8ca_q4gsw(L& l) {
  const ValueId x = l.t(0), w = four_bit_weights(l, 3, 5, l.i(6));
  const auto column = [&](size_t at, DType dtype) {
    const ValueId v = l.cast(l.t(at), dtype);
    return l.rank(v) < l.rank(x) ? l.unsqueeze(v, {-1}) : v;
  };
  const ValueId scale = column(1, DType::kF32), zero = column(2, DType::kI8);
  QuantizeLinearAttrs a;
  a.axis = l.rank(x) - 1;
  a.to = DType::kI8;
  const ValueId q =
      l.op(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(a), {l.cast(x, DType::kF32), scale, zero});
  a.to = DType::kF32;
  const ValueId rows = l.op(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(a), {q, scale, zero});
  l.result(l.cast(linear(l, rows, w, l.opt(7)), l.dtype(x)));
}

/// _weight_int8pack_mm(x, weights int8 [out, in], scales [out]).
void weight_int8pack_mm(L& l) {
  const ValueId x = l.t(0), w = l.t(1);
  const Tensor* bytes = l.ok() ? l.b.constant_of(w) : nullptr;
  if (bytes && bytes->rank() == 2 && bytes->dtype() == DType::kI8) {
    auto q = std::make_shared<Quantization>();
    q->kind = Quantization::Kind::kPerAxis;
    q->scales = known_floats(l, 2);
    if (l.ok() && static_cast<int64_t>(q->scales.size()) != bytes->dim(0))
      return l.fail(InvalidModel(q->scales.size(), " scales for ", bytes->dim(0), " channels"));
    Tensor quantized = *bytes;
    quantized.set_quant(std::move(q));
    return l.result(linear(l, x, l.b.constant("", std::move(quantized)), kNoValue));
  }
  const ValueId y = linear(l, x, l.cast(w, l.dtype(x)), kNoValue);
  l.result(l.binary(Binary::kMul, y, l.cast(l.t(2), l.dtype(x))));
}

/// How torchao cuts a tensor into blocks. `split` has two dimensions for each one that a block divides: blocks, then
/// elements of one.
struct Blocks {
  std::vector<int64_t> split, counts;  ///< counts: `split` with 1 in place of the blocks' own extents
  std::vector<int64_t> axes;           ///< of `split`, inside blocks
  std::vector<int64_t> per_dim;        ///< number of blocks along each dimension of x
};

Blocks cut(L& l, ValueId x, const std::vector<int64_t>& block) {
  Blocks out;
  const int rank = l.rank(x);
  if (!l.ok()) return out;
  if (static_cast<int>(block.size()) != rank) {
    l.fail(InvalidModel("block_size has ", block.size(), " entries for rank ", rank));
    return out;
  }
  for (int i = 0; i < rank; ++i) {
    const int64_t d = l.dim(x, i), b = block[static_cast<size_t>(i)];
    const bool whole = b == -1 || b == d;
    if (b == 1) {
      out.split.push_back(d);
      out.counts.push_back(d);
      out.per_dim.push_back(d);
      continue;
    }
    if (!whole && (b <= 0 || d < 0 || d % b != 0)) {
      l.fail(InvalidModel("block size ", b, " does not divide dimension ", i, " of ", d));
      return out;
    }
    const int64_t n = whole ? 1 : d / b;
    out.split.push_back(n);
    out.counts.push_back(n);
    out.axes.push_back(static_cast<int64_t>(out.split.size()));
    out.split.push_back(whole ? d : b);
    out.counts.push_back(1);
    out.per_dim.push_back(n);
  }
  for (auto* list : {&out.split, &out.counts, &out.per_dim})
    if (std::count(list->begin(), list->end(), -1) > 1) l.fail(Unsupported("more than one unknown dimension"));
  return out;
}

/// choose_qparams_affine(x, mapping, block_size, dtype, quant_min, quant_max, eps, scale_dtype, zp_dtype, keepdim).
void choose_qparams_affine(L& l) {
  const ValueId x = l.float_input(0);
  const std::string mapping = l.text(1, "ASYMMETRIC");
  const Blocks blocks = cut(l, x, l.ints(2));
  const double lo = l.d(4, -128), hi = l.d(5, 127);
  const double eps = l.d(6, l.dtype(x) == DType::kF16 ? 9.765625e-4 : 1.1920928955078125e-7);
  if (!l.ok()) return;
  const bool keep = l.flag(9);
  const ValueId parts = l.reshape(x, blocks.split);
  const DType dtype = l.dtype(x);
  const auto bound = [&](Reduction fn, Binary with) {
    return l.binary(with, l.reduce(fn, parts, blocks.axes, false), l.number(dtype, 0));
  };
  const ValueId smallest = bound(Reduction::kMin, Binary::kMin), largest = bound(Reduction::kMax, Binary::kMax);
  ValueId scale, zero;
  if (mapping == "ASYMMETRIC") {
    scale = l.binary(Binary::kDiv, l.binary(Binary::kSub, largest, smallest), l.number(dtype, hi - lo));
    scale = l.binary(Binary::kMax, scale, l.number(dtype, eps));
    zero = l.binary(Binary::kSub, l.number(dtype, lo), l.unary(Unary::kRound, l.binary(Binary::kDiv, smallest, scale)));
    zero = l.unary(Unary::kClamp, zero, lo, hi);
  } else if (mapping == "SYMMETRIC") {
    const ValueId reach = l.binary(Binary::kMax, l.unary(Unary::kNeg, smallest), largest);
    scale = l.binary(Binary::kDiv, reach, l.number(dtype, (hi - lo) / 2));
    scale = l.binary(Binary::kMax, scale, l.number(dtype, eps));
    zero = l.op(Op::kFill, make_attrs<NoAttrs>(), {l.shape_of(scale), l.number(dtype, std::floor((hi + lo + 1) / 2))});
  } else {
    return l.fail(Unsupported("mapping type ", mapping));
  }
  const int wanted = l.out_rank();
  const bool full_rank = keep || wanted == l.rank(x);
  for (ValueId v : {scale, zero}) l.result(full_rank ? l.reshape(v, blocks.per_dim) : v);
  if (!full_rank && l.ok() && wanted >= 0 && l.rank(scale) != wanted) {
    // Dimensions that a block covers whole are dropped, those that it divides stay.
    std::vector<int64_t> kept;
    for (size_t i = 0; i < blocks.per_dim.size(); ++i)
      if (blocks.per_dim[i] != 1 || l.dim(x, static_cast<int64_t>(i)) == 1) kept.push_back(blocks.per_dim[i]);
    for (ValueId& v : l.lowered.outputs) v = l.reshape(v, kept);
  }
  if (l.out_dtype(1) == DType::kInvalid) l.lowered.outputs[1] = l.cast(l.lowered.outputs[1], DType::kI32);
}

/// choose_qparams_per_row(x, quant_min, quant_max): scales and int8 zero points of the rows, PyTorch's asymmetric rule
/// with scales cut off where half precision ends.
void choose_qparams_per_row(L& l) {
  constexpr double kSmallest = 6.1e-5;
  const double lo = l.d(1), hi = l.d(2);
  const ValueId x = l.cast(l.t(0), DType::kF32);
  const auto number = [&](double v) { return l.number(DType::kF32, v); };
  const auto bound = [&](Reduction fn, Binary with) { return l.binary(with, l.reduce(fn, x, {-1}, false), number(0)); };
  const auto abs = [&](ValueId v) { return l.unary(Unary::kAbs, v); };
  ValueId low = bound(Reduction::kMin, Binary::kMin), high = bound(Reduction::kMax, Binary::kMax);
  const ValueId spread = l.binary(Binary::kDiv, l.binary(Binary::kSub, high, low), number(hi - lo));
  const ValueId some = l.where(l.binary(Binary::kEqual, spread, number(0)), number(0.1), spread);
  const ValueId scale = l.binary(Binary::kMax, some, number(kSmallest));
  // Below the cut-off the bounds grow with the scale.
  const ValueId growth = l.binary(Binary::kDiv, scale, some);
  low = l.binary(Binary::kDiv, l.binary(Binary::kMul, low, growth), scale);
  high = l.binary(Binary::kDiv, l.binary(Binary::kMul, high, growth), scale);
  const ValueId from_low = l.binary(Binary::kSub, number(lo), low),
                from_high = l.binary(Binary::kSub, number(hi), high);
  const ValueId low_error = l.binary(Binary::kSub, number(std::abs(lo)), abs(low));
  const ValueId high_error = l.binary(Binary::kSub, number(std::abs(hi)), abs(high));
  const ValueId zero = l.where(l.binary(Binary::kLess, low_error, high_error), from_low, from_high);
  l.result(scale);
  l.result(l.cast(l.unary(Unary::kRound, l.unary(Unary::kClamp, zero, lo, hi)), DType::kI8));
}

/// Parameters of one tensor's blocks, ready to broadcast with `split`.
ValueId block_parameter(L& l, size_t at, const Blocks& blocks, DType dtype) {
  return l.reshape(l.cast(l.t(at), dtype), blocks.counts);
}

ValueId joined(L& l, ValueId parts, ValueId like) {
  return l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {parts, l.shape_of(like)});
}

/// dequantize_affine(x, block_size, scale, zero_point?, input_dtype, quant_min, quant_max, output_dtype).
void dequantize_affine(L& l) {
  const ValueId x = l.t(0);
  const Blocks blocks = cut(l, x, l.ints(1));
  if (!l.ok()) return;
  const DType dtype = is_float(l.out_dtype()) ? l.out_dtype() : DType::kF32;
  ValueId y = l.reshape(l.cast(x, dtype), blocks.split);
  if (!l.none(3)) y = l.binary(Binary::kSub, y, block_parameter(l, 3, blocks, dtype));
  y = l.binary(Binary::kMul, y, block_parameter(l, 2, blocks, dtype));
  l.result(joined(l, y, x));
}

/// quantize_affine(x, block_size, scale, zero_point?, output_dtype, quant_min, quant_max).
void quantize_affine(L& l) {
  const ValueId x = l.float_input(0);
  const Blocks blocks = cut(l, x, l.ints(1));
  if (!l.ok()) return;
  const DType dtype = l.dtype(x);
  const ValueId parts = l.reshape(x, blocks.split);
  ValueId q = l.unary(Unary::kRound, l.binary(Binary::kDiv, parts, block_parameter(l, 2, blocks, dtype)));
  if (!l.none(3)) q = l.binary(Binary::kAdd, q, block_parameter(l, 3, blocks, dtype));
  q = l.unary(Unary::kClamp, q, l.d(5, -128), l.d(6, 127));
  const DType to = l.out_dtype() != DType::kInvalid ? l.out_dtype() : DType::kI8;
  l.result(l.cast(joined(l, q, x), to));
}

/// Another name of an operator.
template <const char* const* name>
void same_as(L& l) {
  Call call = l.c;
  call.name = *name;
  auto lowered = lower(l.b, call);
  if (!lowered.ok()) return l.fail(lowered.error());
  l.lowered = std::move(lowered).value();
}
constexpr const char* kSdpaWithCache = "llama::sdpa_with_kv_cache";
constexpr const char* kUpdateCache = "llama::update_cache";
constexpr const char* kFloorDivide = "aten::floor_divide";
constexpr const char* kConvolution = "aten::convolution";

constexpr Entry kEntries[] = {
    {"et_vk::prepack", prepack},
    {"et_vk::conv_with_clamp", conv_with_clamp},
    {"aten::conv_with_clamp", conv_with_clamp},
    {"et_vk::rms_norm", rms_norm},
    {"et_vk::apply_rotary_emb", apply_rotary_emb},
    {"et_vk::grid_priors", grid_priors},
    {"et_vk::linear_q4gsw", linear_q4gsw},
    {"et_vk::q4gsw_linear", linear_q4gsw},
    {"et_vk::linear_qcs4w", linear_qcs4w},
    {"et_vk::linear_q4gsw_backward", linear_q4gsw_backward},
    {"et_vk::conv2d_gemm", same_as<&kConvolution>},
    {"etvk::choose_qparams_per_row", choose_qparams_per_row},
    {"et_vk::linear_dq8ca_q4gsw", linear_dq8ca_q4gsw},
    {"aten::_weight_int8pack_mm", weight_int8pack_mm},
    {"torchao::choose_qparams_affine", choose_qparams_affine},
    {"torchao::dequantize_affine", dequantize_affine},
    {"torchao::quantize_affine", quantize_affine},
    {"aten::sdpa_with_kv_cache", same_as<&kSdpaWithCache>},
    {"aten::update_cache", same_as<&kUpdateCache>},
    {"aten::floordiv", same_as<&kFloorDivide>},
};

}  // namespace

std::span<const Entry> vulkan_entries() { return kEntries; }

}  // namespace smelt::aten
