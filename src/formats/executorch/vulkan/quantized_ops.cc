// Operators of Vulkan graphs on 8-bit activations (q8ta), and further names that exporters emit.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// scale * (x - zero_point), with parameters at arguments `at` and `at` + 1.
ValueId dequantized(L& l, ValueId x, size_t at) {
  const ValueId shifted = l.binary(Binary::kSub, l.cast(x, DType::kF32), l.number(DType::kF32, l.d(at + 1)));
  return l.binary(Binary::kMul, shifted, l.number(DType::kF32, l.d(at)));
}

ValueId quantized(L& l, ValueId y, double scale, double zero_point) {
  const ValueId q = l.unary(Unary::kRound, l.binary(Binary::kDiv, y, l.number(DType::kF32, scale)));
  const ValueId shifted = l.binary(Binary::kAdd, q, l.number(DType::kF32, zero_point));
  return l.cast(l.unary(Unary::kClamp, shifted, -128, 127), DType::kI8);
}

/// The result: through relu when argument `activation` says so, then to int8 by the parameters at `at`.
void finish(L& l, ValueId y, size_t at, size_t activation) {
  const std::string act = l.text(activation, "none");
  if (act == "relu")
    y = l.unary(Unary::kRelu, y);
  else if (act != "none")
    return l.fail(Unsupported("activation ", act));
  l.result(quantized(l, y, l.d(at), l.d(at + 1)));
}

/// A vector cut to `n` entries: exporters pad channels to a multiple of 4.
ValueId first(L& l, ValueId v, int64_t n) { return v == kNoValue || l.dim(v, 0) == n ? v : l.slice(v, 0, 0, n); }

/// Weights [out, ...] in float with a scale for each of them.
ValueId weights_of(L& l, ValueId w, ValueId scales) {
  const int64_t out = l.dim(w, 0);
  std::vector<int64_t> column(static_cast<size_t>(std::max(l.rank(w), 1)), 1);
  column[0] = out;
  return l.binary(Binary::kMul, l.cast(w, DType::kF32), l.reshape(l.cast(first(l, scales, out), DType::kF32), column));
}

ValueId linear(L& l, ValueId x, ValueId weights, ValueId bias) {
  MatMulAttrs a;
  a.transpose_b = true;
  std::vector<ValueId> in{x, weights};
  if (bias != kNoValue) in.push_back(l.cast(first(l, bias, l.dim(weights, 0)), DType::kF32));
  return l.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), in);
}

/// Weights of a linear layer without the padding of their rows.
ValueId linear_weights(L& l, ValueId x, size_t weights, size_t scales) {
  ValueId w = l.t(weights);
  const int64_t in = l.dim(x, l.rank(x) - 1);
  if (in >= 0 && l.dim(w, 1) > in) w = l.slice(w, 1, 0, in);
  return weights_of(l, w, l.t(scales));
}

/// q8ta_linear(x, scale, zp, weights, sums, scales, out_scale, out_zp, bias?, activation).
void q8ta_linear(L& l) {
  const ValueId x = dequantized(l, l.t(0), 1);
  finish(l, linear(l, x, linear_weights(l, x, 3, 5), l.opt(8)), 6, 9);
}

/// linear_q8ta_q8csw(x real, scale, zp, weights, sums, scales, bias?): x goes through int8.
void linear_q8ta_q8csw(L& l) {
  const ValueId q = quantized(l, l.t(0), l.d(1), l.d(2));
  const ValueId x = dequantized(l, q, 1);
  l.result(linear(l, x, linear_weights(l, x, 3, 5), l.opt(6)));
}

/// linear_q8csw(x, weights, scales, bias?).
void linear_q8csw(L& l) { l.result(linear(l, l.t(0), linear_weights(l, l.t(0), 1, 2), l.opt(3))); }

std::vector<int64_t> pair(L& l, size_t at) {
  std::vector<int64_t> v = l.ints(at);
  if (v.size() == 1) v.push_back(v[0]);
  if (v.size() != 2) l.fail(InvalidModel("argument ", at, " has ", v.size(), " entries, 2 expected"));
  v.resize(2);
  return v;
}

/// Where a convolution's arguments stand. After `kernel`: stride, padding, (transposed: output padding,) dilation,
/// groups.
struct ConvAt {
  size_t weights, scales, bias, kernel;
  bool transposed = false;
};

/// Convolution of x [N, C, H, W] in float with 8-bit weights [out, height * width * channels of a group], rows perhaps
/// padded, or, depthwise, [height, width, channels].
ValueId convolution(L& l, ValueId x, const ConvAt& at) {
  const size_t extra = at.transposed ? 1 : 0;
  const std::vector<int64_t> kernel = pair(l, at.kernel), stride = pair(l, at.kernel + 1), pad = pair(l, at.kernel + 2),
                             dilation = pair(l, at.kernel + 3 + extra);
  ConvTransposeAttrs a;
  a.groups = l.i(at.kernel + 4 + extra);
  if (!l.ok()) return kNoValue;
  if (l.rank(x) != 4 || a.groups <= 0 || l.dim(x, 1) % a.groups != 0) {
    l.fail(InvalidModel("an input ", l.type(x).str(), " in ", a.groups, " groups"));
    return kNoValue;
  }
  a.strides = stride;
  a.dilations = dilation;
  a.pads = {pad[0], pad[1], pad[0], pad[1]};
  ValueId w = l.t(at.weights);
  if (l.rank(w) == 3) {
    w = weights_of(l, l.reshape(l.transpose(w, {2, 0, 1}), {l.dim(w, 2), 1, kernel[0], kernel[1]}), l.t(at.scales));
  } else {
    const int64_t in = l.dim(x, 1) / a.groups, row = in * kernel[0] * kernel[1];
    if (l.dim(w, 1) > row) w = l.slice(w, 1, 0, row);
    w = l.reshape(weights_of(l, w, l.t(at.scales)), {l.dim(w, 0), kernel[0], kernel[1], in});
    a.filter = FilterLayout::kOSI;
  }
  std::vector<ValueId> in{x, w};
  if (!l.none(at.bias)) in.push_back(l.cast(first(l, l.t(at.bias), l.dim(w, 0)), DType::kF32));
  if (!at.transposed) return l.op(Op::kConv, make_attrs<ConvAttrs>(a), in);
  a.output_padding = pair(l, at.kernel + 3);
  return l.op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), in);
}

/// (x, scale, zp, weights, sums, scales, out_scale, out_zp, bias?, kernel, stride, padding, [output padding,] dilation,
/// groups, activation?).
template <bool transposed>
void q8ta_conv2d(L& l) {
  const ValueId y = convolution(l, dequantized(l, l.t(0), 1), {3, 5, 8, 9, transposed});
  finish(l, y, 6, transposed ? 15 : 14);
}

/// conv2d_q8ta_q8csw(x real, scale, zp, weights, sums, scales, bias?, kernel, ...): x goes through int8.
void conv2d_q8ta_q8csw(L& l) {
  const ValueId x = dequantized(l, quantized(l, l.t(0), l.d(1), l.d(2)), 1);
  l.result(convolution(l, x, {3, 5, 6, 7}));
}

/// conv2d_q8csw(x real, weights, scales, bias?, kernel, ...).
void conv2d_q8csw(L& l) { l.result(convolution(l, l.t(0), {1, 2, 3, 4})); }

/// q8ta_add(a, b, a_scale, a_zp, b_scale, b_zp, out_scale, out_zp, alpha).
void q8ta_add(L& l) {
  const ValueId a = dequantized(l, l.t(0), 2), b = dequantized(l, l.t(1), 4);
  l.result(quantized(l, l.binary(Binary::kAdd, a, b, l.d(8, 1)), l.d(6), l.d(7)));
}

/// q8ta_relu(x, scale, zp, out_scale, out_zp).
void q8ta_relu(L& l) { l.result(quantized(l, l.unary(Unary::kRelu, dequantized(l, l.t(0), 1)), l.d(3), l.d(4))); }

/// q8ta_pixel_shuffle(x, scale, zp, 1 / out_scale, out_zp, factor).
void q8ta_pixel_shuffle(L& l) {
  BlockAttrs a;
  a.block = l.i(5);
  a.channel_first_order = true;
  const ValueId y = l.op(Op::kDepthSpace, make_attrs<BlockAttrs>(a), {dequantized(l, l.t(0), 1)});
  l.result(quantized(l, y, 1 / l.d(3), l.d(4)));
}

/// apply_rotary_emb_hf(q, k, cos, sin, start): halves of a head turn; rows of cos and sin [max, D] from start on.
void apply_rotary_emb_hf(L& l) {
  const ValueId start = l.reshape(l.int_value(4), {1});
  ShapeOfAttrs length;
  length.start = 1;
  length.end = 2;
  for (size_t i : {0, 1}) {
    const ValueId x = l.t(i);
    const ValueId end = l.binary(Binary::kAdd, start, l.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(length), {x}));
    const int64_t half = l.dim(x, l.rank(x) - 1) / 2;
    const auto rows = [&](size_t at) {
      const ValueId part = l.op(Op::kSlice, make_attrs<NoAttrs>(), {l.t(at), start, end, l.b.i64({0})});
      return l.dim(part, 1) > half ? l.slice(part, 1, 0, half) : part;
    };
    RotaryAttrs a;
    a.batch_seq_heads = true;
    l.result(l.op(Op::kRotary, make_attrs<RotaryAttrs>(a), {x, rows(2), rows(3)}));
  }
}

/// apply_rotary_emb_interleaved(x [B, N, C], freqs of N * C): pairs of x times pairs (cos, sin).
void apply_rotary_emb_interleaved(L& l) {
  const ValueId x = l.t(0);
  if (l.rank(x) != 3) return l.fail(InvalidModel("rank ", l.rank(x), ", 3 expected"));
  const int64_t n = l.dim(x, 1), half = l.dim(x, 2) / 2;
  const auto part = [&](ValueId v, int64_t which) { return l.slice(v, -1, which, which + 1); };
  const ValueId pairs = l.reshape(x, {-1, n, half, 2}), turn = l.reshape(l.t(1), {n, half, 2});
  const ValueId re = part(pairs, 0), im = part(pairs, 1), c = part(turn, 0), s = part(turn, 1);
  const auto mul = [&](ValueId a, ValueId b) { return l.binary(Binary::kMul, a, b); };
  const ValueId real = l.binary(Binary::kSub, mul(re, c), mul(im, s));
  const ValueId imaginary = l.binary(Binary::kAdd, mul(re, s), mul(im, c));
  const ValueId joined = l.op(Op::kConcat, make_attrs<AxisAttrs>(-1), {real, imaginary});
  l.result(l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {joined, l.shape_of(x)}));
}

/// sdpa(q, k, v, mask?, scale?) of [B, H, S, D]; the mask is added.
void sdpa(L& l) {
  AttentionAttrs a;
  a.scale = l.d(4, 0);
  std::vector<ValueId> in{l.t(0), l.t(1), l.t(2)};
  if (!l.none(3)) in.push_back(l.cast(l.t(3), l.dtype(in[0])));
  l.result(l.op(Op::kAttention, make_attrs<AttentionAttrs>(a), in));
}

/// select_as_symint(x, dim, index): one number of a tensor.
void select_as_symint(L& l) {
  const ValueId x = l.t(0);
  const int64_t axis = l.axis(l.i(1), l.rank(x)), index = l.i(2);
  l.result(l.reshape(l.cast(l.slice(x, axis, index, index == -1 ? INT64_MAX : index + 1), DType::kI64), {}));
}

/// embedding_q4gsw(weights [rows, width / 2], scales [rows, groups] or one, group, indices, is_linear_weight): the
/// first of two numbers lies in the high half of a byte, in linear weights in the low half. Only the rows asked for are
/// unpacked.
void embedding_q4gsw(L& l) {
  const ValueId w = l.t(0), scales = l.t(1), indices = l.cast(l.t(3), DType::kI64);
  const int64_t width = 2 * l.dim(w, 1), group = l.i(2);
  if (!l.ok()) return;
  if (l.rank(w) != 2 || width <= 0 || group <= 0 || width % group != 0)
    return l.fail(InvalidModel("weights ", l.type(w).str(), " in groups of ", group));
  const ValueId list = l.reshape(indices, {-1});
  const auto rows_of = [&](ValueId table) { return l.op(Op::kGather, make_attrs<GatherAttrs>(), {table, list}); };
  const ValueId bytes = l.cast(rows_of(w), DType::kU8);
  ValueId high = l.binary(Binary::kShiftRightLogical, bytes, l.integer(DType::kU8, 4));
  ValueId low = l.binary(Binary::kBitAnd, bytes, l.integer(DType::kU8, 15));
  if (l.flag(4)) std::swap(high, low);
  ValueId y = l.reshape(l.op(Op::kStack, make_attrs<AxisAttrs>(-1), {high, low}), {-1, width / group, group});
  y = l.binary(Binary::kSub, l.cast(y, DType::kF32), l.number(DType::kF32, 8));
  const ValueId scale = l.cast(l.rank(scales) == 2 ? rows_of(scales) : scales, DType::kF32);
  y = l.binary(Binary::kMul, y, l.rank(scales) == 2 ? l.unsqueeze(scale, {2}) : l.reshape(scale, {1, 1, 1}));
  l.result(l.like_indices(y, indices, width));
}

/// conv1d_pw and conv1d_dw(x, weight, bias?, stride, padding, dilation, groups, min?, max?): a convolution that clamps.
void conv1d(L& l) {
  if (l.count() < 7) return l.fail(InvalidModel(l.count(), " arguments, 7 expected"));
  std::vector<Arg> args(l.c.args.begin(), l.c.args.begin() + 6);
  args.push_back(Arg::boolean(false));
  args.push_back(Arg::int_list({{0}}));
  args.push_back(l.arg(6));
  auto lowered = lower(
      l.b,
      {.name = "aten::convolution", .overload = "default", .args = args, .outputs = l.c.outputs, .out_variant = false});
  if (!lowered.ok()) return l.fail(lowered.error());
  const ValueId y = lowered->outputs.at(0);
  l.result(l.none(7) && l.none(8) ? y : l.unary(Unary::kClamp, y, l.d(7, -INFINITY), l.d(8, INFINITY)));
}

constexpr Entry kEntries[] = {
    {"et_vk::q8ta_linear", q8ta_linear},
    {"et_vk::q8ta_linear_gemv", q8ta_linear},
    {"et_vk::linear_q8ta_q8csw", linear_q8ta_q8csw},
    {"et_vk::linear_q8csw", linear_q8csw},
    {"et_vk::q8ta_conv2d", q8ta_conv2d<false>},
    {"et_vk::q8ta_conv2d_pw", q8ta_conv2d<false>},
    {"et_vk::q8ta_conv2d_general", q8ta_conv2d<false>},
    {"et_vk::q8ta_conv2d_im2col", q8ta_conv2d<false>},
    {"et_vk::q8ta_conv2d_dw", q8ta_conv2d<false>},
    {"et_vk::q8ta_conv2d_transposed", q8ta_conv2d<true>},
    {"et_vk::conv2d_q8ta_q8csw_q8to", q8ta_conv2d<false>},
    {"et_vk::conv2d_q8ta_q8csw_q8to_dw", q8ta_conv2d<false>},
    {"et_vk::conv2d_q8ta_q8csw", conv2d_q8ta_q8csw},
    {"et_vk::conv2d_q8csw", conv2d_q8csw},
    {"et_vk::q8ta_add", q8ta_add},
    {"et_vk::q8ta_relu", q8ta_relu},
    {"et_vk::q8ta_pixel_shuffle", q8ta_pixel_shuffle},
    {"et_vk::apply_rotary_emb_hf", apply_rotary_emb_hf},
    {"et_vk::apply_rotary_emb_interleaved", apply_rotary_emb_interleaved},
    {"et_vk::sdpa", sdpa},
    {"et_vk::select_as_symint", select_as_symint},
    {"et_vk::embedding_q4gsw", embedding_q4gsw},
    {"et_vk::conv1d_pw", conv1d},
    {"et_vk::conv1d_dw", conv1d},
};

}  // namespace

std::span<const Entry> vulkan_quantized_entries() { return kEntries; }

}  // namespace smelt::aten
