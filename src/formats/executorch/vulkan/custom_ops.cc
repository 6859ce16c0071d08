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
void prepack(CallContext& c) { c.result(c.t(0)); }

/// The arguments of convolution, then the bounds of a clamp.
void conv_with_clamp(CallContext& c) {
  constexpr size_t kConvArguments = 9;
  if (c.count() < kConvArguments) return c.fail(c.count(), " arguments, 11 expected");
  const Call conv{.name = "aten::convolution",
                  .overload = "default",
                  .args = c.call.args.subspan(0, kConvArguments),
                  .outputs = c.call.outputs,
                  .out_variant = false};
  auto lowered = lower(c.builder(), conv);
  if (!lowered.ok()) return c.fail(lowered.error());
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double lo = c.d(kConvArguments, -kInf), hi = c.d(kConvArguments + 1, kInf);
  c.result(c.unary(Unary::kClamp, lowered->outputs.at(0), lo, hi));
}

/// rms_norm(x, weight, eps): over the last dimension.
void vulkan_rms_norm(CallContext& c) {
  LayerNormAttrs a;
  a.rms = true;
  a.epsilon = c.d(2, 1e-5);
  const ValueId x = c.t(0);
  c.emit(Op::kLayerNorm, a, {x, c.cast(c.t(1), c.dtype(x))});
}

/// apply_rotary_emb(q, k, cos, sin) of [B, S, H, D] and [S, D/2]: pairs of neighbours turn.
void apply_rotary_emb(CallContext& c) {
  RotaryAttrs a;
  a.interleaved = true;
  a.batch_seq_heads = true;
  for (size_t i : {0, 1}) c.emit(Op::kRotary, a, {c.t(i), c.t(2), c.t(3)});
}

/// grid_priors(x, stride, offset).
void grid_priors(CallContext& c) {
  GridPriorsAttrs a;
  a.stride = c.i(1);
  a.offset = c.d(2);
  c.emit(Op::kGridPriors, a, {c.t(0)});
}

/// The float32 values of a constant; fails when it is none.
std::vector<float> constant_floats(CallContext& c, size_t at) {
  ValueId id = c.t(at);
  if (!c.ok()) return {};
  const Tensor* k = c.constant_of(id);
  // A widened fp16 constant stands behind its cast.
  if (!k)
    for (const Node& n : c.builder().graph().nodes)
      if (n.op == Op::kCast && n.outputs[0] == id) k = c.constant_of(n.inputs[0]);
  if (!k) {
    c.unsupported("argument ", at, " must be a constant");
    return {};
  }
  std::vector<float> values(static_cast<size_t>(k->elements()));
  to_floats(*k, values.data());
  return values;
}

/// The bytes with their nibbles swapped.
Tensor swap_nibbles(const Tensor& bytes) {
  Tensor out = bytes.clone();
  auto* p = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.elements(); ++i) p[i] = static_cast<uint8_t>(p[i] << 4 | p[i] >> 4);
  return out;
}

/// Weights [out, in / 2] of two 4-bit numbers a byte, with a zero point of 8, the first in the low half unless
/// `high_first`, with scales [in / group, out]. A group of 0 is a whole row. Bytes with the first number low are used
/// as they lie in the file.
ValueId four_bit_weights(CallContext& c, size_t weights_at, size_t scales_at, int64_t group, bool high_first = false) {
  const ValueId id = c.t(weights_at);
  const std::vector<float> scales = constant_floats(c, scales_at);
  if (!c.ok()) return kNoValue;
  const Tensor* bytes = c.constant_of(id);
  if (!bytes || bytes->rank() != 2 || bit_width(bytes->dtype()) != 8) {
    c.unsupported("the weights must be constant bytes of rank 2");
    return kNoValue;
  }
  const int64_t out = bytes->dim(0), in = bytes->dim(1) * 2;
  if (group == 0) group = in;
  const int64_t groups = group > 0 && in % group == 0 ? in / group : 0;
  if (groups == 0 || static_cast<int64_t>(scales.size()) != groups * out) {
    c.fail(scales.size(), " scales for ", out, " channels of ", in, " inputs in groups of ", group);
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
  const Tensor bytes_low_first = high_first ? swap_nibbles(*bytes) : *bytes;
  Tensor packed = Tensor::view(DType::kU4, Shape{out, in}, bytes_low_first.raw(), bytes_low_first.owner());
  packed.set_quant(std::move(q));
  // Bytes that the constant itself owns have no other keeper.
  return c.constant(bytes_low_first.owner() ? packed : packed.clone());
}

ValueId linear(CallContext& c, ValueId x, ValueId weights, ValueId bias) {
  MatMulAttrs a;
  a.transpose_b = true;
  std::vector<ValueId> in{x, weights};
  if (bias != kNoValue) in.push_back(c.cast(bias, c.dtype(x)));
  return c.add(Op::kMatMul, a, in);
}

/// linear_q4gsw(x, weights, scales, group, bias?).
void linear_q4gsw(CallContext& c) {
  const ValueId w = four_bit_weights(c, 1, 2, c.i(3));
  c.result(linear(c, c.t(0), w, c.opt(4)));
}

/// linear_qcs4w(x, weights, scales [out]).
void linear_qcs4w(CallContext& c) { c.result(linear(c, c.t(0), four_bit_weights(c, 1, 2, 0, true), kNoValue)); }

/// linear_q4gsw_backward(d_out, weights, scales, group): the gradient of linear_q4gsw's x.
void linear_q4gsw_backward(CallContext& c) {
  const ValueId w = four_bit_weights(c, 1, 2, c.i(3));
  c.emit(Op::kMatMul, MatMulAttrs(), {c.t(0), w});
}

/// linear_dq8ca_q4gsw(x, x_scale, x_zero_point, weights, weight_sums, scales, group, bias?): x goes through int8 with
/// one scale and zero point per token.
void linear_dq8ca_q4gsw(CallContext& c) {
  const ValueId x = c.t(0), w = four_bit_weights(c, 3, 5, c.i(6));
  const auto column = [&](size_t at, DType dtype) {
    const ValueId v = c.cast(c.t(at), dtype);
    return c.rank(v) < c.rank(x) ? c.unsqueeze(v, {-1}) : v;
  };
  const ValueId scale = column(1, DType::kF32), zero = column(2, DType::kI8);
  QuantizeLinearAttrs a;
  a.axis = c.rank(x) - 1;
  a.to = DType::kI8;
  const ValueId q = c.add(Op::kQuantizeLinear, a, {c.cast(x, DType::kF32), scale, zero});
  a.to = DType::kF32;
  const ValueId rows = c.add(Op::kDequantizeLinear, a, {q, scale, zero});
  c.result(c.cast(linear(c, rows, w, c.opt(7)), c.dtype(x)));
}

/// _weight_int8pack_mm(x, weights int8 [out, in], scales [out]).
void vulkan_weight_int8pack_mm(CallContext& c) {
  const ValueId x = c.t(0), w = c.t(1);
  const Tensor* bytes = c.ok() ? c.constant_of(w) : nullptr;
  if (bytes && bytes->rank() == 2 && bytes->dtype() == DType::kI8) {
    auto q = std::make_shared<Quantization>();
    q->kind = Quantization::Kind::kPerAxis;
    q->scales = constant_floats(c, 2);
    if (c.ok() && static_cast<int64_t>(q->scales.size()) != bytes->dim(0))
      return c.fail(q->scales.size(), " scales for ", bytes->dim(0), " channels");
    Tensor quantized = *bytes;
    quantized.set_quant(std::move(q));
    return c.result(linear(c, x, c.constant(std::move(quantized)), kNoValue));
  }
  const ValueId y = linear(c, x, c.cast(w, c.dtype(x)), kNoValue);
  c.result(c.binary(Binary::kMul, y, c.cast(c.t(2), c.dtype(x))));
}

/// How torchao cuts a tensor into blocks. `split` has two dimensions for each one that a block divides: blocks, then
/// elements of one.
struct Blocks {
  std::vector<int64_t> split, counts;  ///< counts: `split` with 1 in place of the blocks' own extents
  std::vector<int64_t> axes;           ///< of `split`, inside blocks
  std::vector<int64_t> per_dim;        ///< number of blocks along each dimension of x
};

Blocks cut(CallContext& c, ValueId x, const std::vector<int64_t>& block) {
  Blocks out;
  const int rank = c.rank(x);
  if (!c.ok()) return out;
  if (static_cast<int>(block.size()) != rank) {
    c.fail("block_size has ", block.size(), " entries for rank ", rank);
    return out;
  }
  for (int i = 0; i < rank; ++i) {
    const int64_t d = c.dim(x, i), b = block[static_cast<size_t>(i)];
    const bool whole = b == -1 || b == d;
    if (b == 1) {
      out.split.push_back(d);
      out.counts.push_back(d);
      out.per_dim.push_back(d);
      continue;
    }
    if (!whole && (b <= 0 || d < 0 || d % b != 0)) {
      c.fail("block size ", b, " does not divide dimension ", i, " of ", d);
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
    if (std::count(list->begin(), list->end(), -1) > 1) c.unsupported("more than one unknown dimension");
  return out;
}

/// choose_qparams_affine(x, mapping, block_size, dtype, quant_min, quant_max, eps, scale_dtype, zp_dtype, keepdim).
void choose_qparams_affine(CallContext& c) {
  const ValueId x = c.float_input(0);
  const std::string mapping = c.text(1, "ASYMMETRIC");
  const Blocks blocks = cut(c, x, c.ints(2));
  const double lo = c.d(4, -128), hi = c.d(5, 127);
  const double eps = c.d(6, c.dtype(x) == DType::kF16 ? 9.765625e-4 : 1.1920928955078125e-7);
  if (!c.ok()) return;
  const bool keep = c.flag(9);
  const ValueId parts = c.reshape(x, blocks.split);
  const DType dtype = c.dtype(x);
  const auto bound = [&](Reduction fn, Binary with) {
    return c.binary(with, c.reduce(fn, parts, blocks.axes, false), c.number(dtype, 0));
  };
  const ValueId smallest = bound(Reduction::kMin, Binary::kMin), largest = bound(Reduction::kMax, Binary::kMax);
  ValueId scale, zero;
  if (mapping == "ASYMMETRIC") {
    scale = c.binary(Binary::kDiv, c.binary(Binary::kSub, largest, smallest), c.number(dtype, hi - lo));
    scale = c.binary(Binary::kMax, scale, c.number(dtype, eps));
    zero = c.binary(Binary::kSub, c.number(dtype, lo), c.unary(Unary::kRound, c.binary(Binary::kDiv, smallest, scale)));
    zero = c.unary(Unary::kClamp, zero, lo, hi);
  } else if (mapping == "SYMMETRIC") {
    const ValueId reach = c.binary(Binary::kMax, c.unary(Unary::kNeg, smallest), largest);
    scale = c.binary(Binary::kDiv, reach, c.number(dtype, (hi - lo) / 2));
    scale = c.binary(Binary::kMax, scale, c.number(dtype, eps));
    zero = c.fill(c.shape_of(scale), c.number(dtype, std::floor((hi + lo + 1) / 2)));
  } else {
    return c.unsupported("mapping type ", mapping);
  }
  const int wanted = c.out_rank();
  const bool full_rank = keep || wanted == c.rank(x);
  for (ValueId v : {scale, zero}) c.result(full_rank ? c.reshape(v, blocks.per_dim) : v);
  if (!full_rank && c.ok() && wanted >= 0 && c.rank(scale) != wanted) {
    // Dimensions that a block covers whole are dropped, those that it divides stay.
    std::vector<int64_t> kept;
    for (size_t i = 0; i < blocks.per_dim.size(); ++i)
      if (blocks.per_dim[i] != 1 || c.dim(x, static_cast<int64_t>(i)) == 1) kept.push_back(blocks.per_dim[i]);
    for (ValueId& v : c.lowered.outputs) v = c.reshape(v, kept);
  }
  if (c.out_dtype(1) == DType::kInvalid) c.lowered.outputs[1] = c.cast(c.lowered.outputs[1], DType::kI32);
}

/// choose_qparams_per_row(x, quant_min, quant_max): scales and int8 zero points of the rows, PyTorch's asymmetric rule
/// with scales cut off where half precision ends.
void choose_qparams_per_row(CallContext& c) {
  constexpr double kSmallest = 6.1e-5;
  const double lo = c.d(1), hi = c.d(2);
  const ValueId x = c.cast(c.t(0), DType::kF32);
  const auto number = [&](double v) { return c.number(DType::kF32, v); };
  const auto bound = [&](Reduction fn, Binary with) { return c.binary(with, c.reduce(fn, x, {-1}, false), number(0)); };
  const auto abs = [&](ValueId v) { return c.unary(Unary::kAbs, v); };
  ValueId low = bound(Reduction::kMin, Binary::kMin), high = bound(Reduction::kMax, Binary::kMax);
  const ValueId spread = c.binary(Binary::kDiv, c.binary(Binary::kSub, high, low), number(hi - lo));
  const ValueId some = c.where(c.binary(Binary::kEqual, spread, number(0)), number(0.1), spread);
  const ValueId scale = c.binary(Binary::kMax, some, number(kSmallest));
  // Below the cut-off the bounds grow with the scale.
  const ValueId growth = c.binary(Binary::kDiv, scale, some);
  low = c.binary(Binary::kDiv, c.binary(Binary::kMul, low, growth), scale);
  high = c.binary(Binary::kDiv, c.binary(Binary::kMul, high, growth), scale);
  const ValueId from_low = c.binary(Binary::kSub, number(lo), low),
                from_high = c.binary(Binary::kSub, number(hi), high);
  const ValueId low_error = c.binary(Binary::kSub, number(std::abs(lo)), abs(low));
  const ValueId high_error = c.binary(Binary::kSub, number(std::abs(hi)), abs(high));
  const ValueId zero = c.where(c.binary(Binary::kLess, low_error, high_error), from_low, from_high);
  c.result(scale);
  c.result(c.cast(c.unary(Unary::kRound, c.unary(Unary::kClamp, zero, lo, hi)), DType::kI8));
}

/// Parameters of one tensor's blocks, ready to broadcast with `split`.
ValueId block_parameter(CallContext& c, size_t at, const Blocks& blocks, DType dtype) {
  return c.reshape(c.cast(c.t(at), dtype), blocks.counts);
}

ValueId joined(CallContext& c, ValueId parts, ValueId like) { return c.reshape_to(parts, c.shape_of(like)); }

/// dequantize_affine(x, block_size, scale, zero_point?, input_dtype, quant_min, quant_max, output_dtype).
void dequantize_affine(CallContext& c) {
  const ValueId x = c.t(0);
  const Blocks blocks = cut(c, x, c.ints(1));
  if (!c.ok()) return;
  const DType dtype = is_float(c.out_dtype()) ? c.out_dtype() : DType::kF32;
  ValueId y = c.reshape(c.cast(x, dtype), blocks.split);
  if (!c.none(3)) y = c.binary(Binary::kSub, y, block_parameter(c, 3, blocks, dtype));
  y = c.binary(Binary::kMul, y, block_parameter(c, 2, blocks, dtype));
  c.result(joined(c, y, x));
}

/// quantize_affine(x, block_size, scale, zero_point?, output_dtype, quant_min, quant_max).
void quantize_affine(CallContext& c) {
  const ValueId x = c.float_input(0);
  const Blocks blocks = cut(c, x, c.ints(1));
  if (!c.ok()) return;
  const DType dtype = c.dtype(x);
  const ValueId parts = c.reshape(x, blocks.split);
  ValueId q = c.unary(Unary::kRound, c.binary(Binary::kDiv, parts, block_parameter(c, 2, blocks, dtype)));
  if (!c.none(3)) q = c.binary(Binary::kAdd, q, block_parameter(c, 3, blocks, dtype));
  q = c.unary(Unary::kClamp, q, c.d(5, -128), c.d(6, 127));
  const DType to = c.out_dtype() != DType::kInvalid ? c.out_dtype() : DType::kI8;
  c.result(c.cast(joined(c, q, x), to));
}

/// Another name of an operator.
template <const char* const* name>
void same_as(CallContext& c) {
  Call call = c.call;
  call.name = *name;
  auto lowered = lower(c.builder(), call);
  if (!lowered.ok()) return c.fail(lowered.error());
  c.lowered = std::move(lowered).value();
}
constexpr const char* kSdpaWithCache = "llama::sdpa_with_kv_cache";
constexpr const char* kUpdateCache = "llama::update_cache";
constexpr const char* kFloorDivide = "aten::floor_divide";
constexpr const char* kConvolution = "aten::convolution";

constexpr OpEntry kEntries[] = {
    {"et_vk::prepack", prepack},
    {"et_vk::conv_with_clamp", conv_with_clamp},
    {"aten::conv_with_clamp", conv_with_clamp},
    {"et_vk::rms_norm", vulkan_rms_norm},
    {"et_vk::apply_rotary_emb", apply_rotary_emb},
    {"et_vk::grid_priors", grid_priors},
    {"et_vk::linear_q4gsw", linear_q4gsw},
    {"et_vk::q4gsw_linear", linear_q4gsw},
    {"et_vk::linear_qcs4w", linear_qcs4w},
    {"et_vk::linear_q4gsw_backward", linear_q4gsw_backward},
    {"et_vk::conv2d_gemm", same_as<&kConvolution>},
    {"etvk::choose_qparams_per_row", choose_qparams_per_row},
    {"et_vk::linear_dq8ca_q4gsw", linear_dq8ca_q4gsw},
    {"aten::_weight_int8pack_mm", vulkan_weight_int8pack_mm},
    {"torchao::choose_qparams_affine", choose_qparams_affine},
    {"torchao::dequantize_affine", dequantize_affine},
    {"torchao::quantize_affine", quantize_affine},
    {"aten::sdpa_with_kv_cache", same_as<&kSdpaWithCache>},
    {"aten::update_cache", same_as<&kUpdateCache>},
    {"aten::floordiv", same_as<&kFloorDivide>},
};

}  // namespace

std::span<const OpEntry> vulkan_entries() { return kEntries; }

}  // namespace smelt::aten
