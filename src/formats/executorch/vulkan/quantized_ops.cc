// Operators of Vulkan graphs on 8-bit activations (q8ta), and further names that exporters emit.
#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// scale * (x - zero_point), with parameters at arguments `at` and `at` + 1.
ValueId dequantized(CallContext& c, ValueId x, size_t at) {
  const ValueId shifted = c.binary(Binary::kSub, c.cast(x, DType::kF32), c.number(DType::kF32, c.d(at + 1)));
  return c.binary(Binary::kMul, shifted, c.number(DType::kF32, c.d(at)));
}

ValueId quantized(CallContext& c, ValueId y, double scale, double zero_point) {
  const ValueId q = c.unary(Unary::kRound, c.binary(Binary::kDiv, y, c.number(DType::kF32, scale)));
  const ValueId shifted = c.binary(Binary::kAdd, q, c.number(DType::kF32, zero_point));
  return c.cast(c.unary(Unary::kClamp, shifted, -128, 127), DType::kI8);
}

/// The result: through relu when argument `activation` says so, then to int8 by the parameters at `at`.
void finish(CallContext& c, ValueId y, size_t at, size_t activation) {
  const std::string act = c.text(activation, "none");
  if (act == "relu")
    y = c.unary(Unary::kRelu, y);
  else if (act != "none")
    return c.unsupported("activation ", act);
  c.result(quantized(c, y, c.d(at), c.d(at + 1)));
}

/// A vector cut to `n` entries: exporters pad channels to a multiple of 4.
ValueId first(CallContext& c, ValueId v, int64_t n) {
  return v == kNoValue || c.dim(v, 0) == n ? v : c.slice(v, 0, 0, n);
}

/// Weights [out, ...] in float with a scale for each of them.
ValueId weights_of(CallContext& c, ValueId w, ValueId scales) {
  const int64_t out = c.dim(w, 0);
  std::vector<int64_t> column(static_cast<size_t>(std::max(c.rank(w), 1)), 1);
  column[0] = out;
  return c.binary(Binary::kMul, c.cast(w, DType::kF32), c.reshape(c.cast(first(c, scales, out), DType::kF32), column));
}

ValueId quantized_linear(CallContext& c, ValueId x, ValueId weights, ValueId bias) {
  MatMulAttrs a;
  a.transpose_b = true;
  std::vector<ValueId> in{x, weights};
  if (bias != kNoValue) in.push_back(c.cast(first(c, bias, c.dim(weights, 0)), DType::kF32));
  return c.add(Op::kMatMul, a, in);
}

/// Weights of a linear layer without the padding of their rows.
ValueId linear_weights(CallContext& c, ValueId x, size_t weights, size_t scales) {
  ValueId w = c.t(weights);
  const int64_t in = c.dim(x, c.rank(x) - 1);
  if (in >= 0 && c.dim(w, 1) > in) w = c.slice(w, 1, 0, in);
  return weights_of(c, w, c.t(scales));
}

/// q8ta_linear(x, scale, zp, weights, sums, scales, out_scale, out_zp, bias?, activation).
void q8ta_linear(CallContext& c) {
  const ValueId x = dequantized(c, c.t(0), 1);
  finish(c, quantized_linear(c, x, linear_weights(c, x, 3, 5), c.opt(8)), 6, 9);
}

/// linear_q8ta_q8csw(x real, scale, zp, weights, sums, scales, bias?): x goes through int8.
void linear_q8ta_q8csw(CallContext& c) {
  const ValueId q = quantized(c, c.t(0), c.d(1), c.d(2));
  const ValueId x = dequantized(c, q, 1);
  c.result(quantized_linear(c, x, linear_weights(c, x, 3, 5), c.opt(6)));
}

/// linear_q8csw(x, weights, scales, bias?).
void linear_q8csw(CallContext& c) { c.result(quantized_linear(c, c.t(0), linear_weights(c, c.t(0), 1, 2), c.opt(3))); }

std::vector<int64_t> spatial_pair(CallContext& c, size_t at) {
  std::vector<int64_t> v = c.ints(at);
  if (v.size() == 1) v.push_back(v[0]);
  if (v.size() != 2) c.fail("argument ", at, " has ", v.size(), " entries, 2 expected");
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
ValueId convolution(CallContext& c, ValueId x, const ConvAt& at) {
  const size_t extra = at.transposed ? 1 : 0;
  const std::vector<int64_t> kernel = spatial_pair(c, at.kernel), stride = spatial_pair(c, at.kernel + 1),
                             pad = spatial_pair(c, at.kernel + 2), dilation = spatial_pair(c, at.kernel + 3 + extra);
  ConvTransposeAttrs a;
  a.groups = c.i(at.kernel + 4 + extra);
  if (!c.ok()) return kNoValue;
  if (c.rank(x) != 4 || a.groups <= 0 || c.dim(x, 1) % a.groups != 0) {
    c.fail("an input ", c.type(x).str(), " in ", a.groups, " groups");
    return kNoValue;
  }
  a.strides = stride;
  a.dilations = dilation;
  a.pads = {pad[0], pad[1], pad[0], pad[1]};
  ValueId w = c.t(at.weights);
  if (c.rank(w) == 3) {
    w = weights_of(c, c.reshape(c.transpose(w, {2, 0, 1}), {c.dim(w, 2), 1, kernel[0], kernel[1]}), c.t(at.scales));
  } else {
    const int64_t in = c.dim(x, 1) / a.groups, row = in * kernel[0] * kernel[1];
    if (c.dim(w, 1) > row) w = c.slice(w, 1, 0, row);
    w = c.reshape(weights_of(c, w, c.t(at.scales)), {c.dim(w, 0), kernel[0], kernel[1], in});
    a.filter = FilterLayout::kOSI;
  }
  std::vector<ValueId> in{x, w};
  if (!c.none(at.bias)) in.push_back(c.cast(first(c, c.t(at.bias), c.dim(w, 0)), DType::kF32));
  if (!at.transposed) return c.add(Op::kConv, ConvAttrs(a), in);
  a.output_padding = spatial_pair(c, at.kernel + 3);
  return c.add(Op::kConvTranspose, a, in);
}

/// (x, scale, zp, weights, sums, scales, out_scale, out_zp, bias?, kernel, stride, padding, [output padding,] dilation,
/// groups, activation?).
template <bool transposed>
void q8ta_conv2d(CallContext& c) {
  const ValueId y = convolution(c, dequantized(c, c.t(0), 1), {3, 5, 8, 9, transposed});
  finish(c, y, 6, transposed ? 15 : 14);
}

/// conv2d_q8ta_q8csw(x real, scale, zp, weights, sums, scales, bias?, kernel, ...): x goes through int8.
void conv2d_q8ta_q8csw(CallContext& c) {
  const ValueId x = dequantized(c, quantized(c, c.t(0), c.d(1), c.d(2)), 1);
  c.result(convolution(c, x, {3, 5, 6, 7}));
}

/// conv2d_q8csw(x real, weights, scales, bias?, kernel, ...).
void conv2d_q8csw(CallContext& c) { c.result(convolution(c, c.t(0), {1, 2, 3, 4})); }

/// q8ta_add(a, b, a_scale, a_zp, b_scale, b_zp, out_scale, out_zp, alpha).
void q8ta_add(CallContext& c) {
  const ValueId a = dequantized(c, c.t(0), 2), b = dequantized(c, c.t(1), 4);
  c.result(quantized(c, c.binary(Binary::kAdd, a, b, c.d(8, 1)), c.d(6), c.d(7)));
}

/// q8ta_relu(x, scale, zp, out_scale, out_zp).
void q8ta_relu(CallContext& c) {
  c.result(quantized(c, c.unary(Unary::kRelu, dequantized(c, c.t(0), 1)), c.d(3), c.d(4)));
}

/// q8ta_pixel_shuffle(x, scale, zp, 1 / out_scale, out_zp, factor).
void q8ta_pixel_shuffle(CallContext& c) {
  BlockAttrs a;
  a.block = c.i(5);
  a.channel_first_order = true;
  const ValueId y = c.add(Op::kDepthSpace, a, {dequantized(c, c.t(0), 1)});
  c.result(quantized(c, y, 1 / c.d(3), c.d(4)));
}

/// apply_rotary_emb_hf(q, k, cos, sin, start): the two halves of a head are the pairs that rotate; entries of cos and
/// sin [max, D] from start on.
void apply_rotary_emb_hf(CallContext& c) {
  const ValueId start = c.reshape(c.int_value(4), {1});
  for (size_t i : {0, 1}) {
    const ValueId x = c.t(i);
    const ValueId end = c.binary(Binary::kAdd, start, c.dims_of(x, 1, 2));
    const int64_t half = c.dim(x, c.rank(x) - 1) / 2;
    const auto rows = [&](size_t at) {
      const ValueId part = c.add(Op::kSlice, {c.t(at), start, end, c.i64({0})});
      return c.dim(part, 1) > half ? c.slice(part, 1, 0, half) : part;
    };
    RotaryAttrs a;
    a.batch_seq_heads = true;
    c.emit(Op::kRotary, a, {x, rows(2), rows(3)});
  }
}

/// apply_rotary_emb_interleaved(x [B, N, C], freqs of N * C): pairs of x times pairs (cos, sin).
void apply_rotary_emb_interleaved(CallContext& c) {
  const ValueId x = c.t(0);
  if (c.rank(x) != 3) return c.fail("rank ", c.rank(x), ", 3 expected");
  const int64_t n = c.dim(x, 1), half = c.dim(x, 2) / 2;
  const auto part = [&](ValueId v, int64_t which) { return c.slice(v, -1, which, which + 1); };
  const ValueId pairs = c.reshape(x, {-1, n, half, 2}), turn = c.reshape(c.t(1), {n, half, 2});
  const ValueId re = part(pairs, 0), im = part(pairs, 1), cosine = part(turn, 0), sine = part(turn, 1);
  const auto mul = [&](ValueId a, ValueId b) { return c.binary(Binary::kMul, a, b); };
  const ValueId real = c.binary(Binary::kSub, mul(re, cosine), mul(im, sine));
  const ValueId imaginary = c.binary(Binary::kAdd, mul(re, sine), mul(im, cosine));
  const ValueId joined = c.concat({real, imaginary}, -1);
  c.result(c.reshape_to(joined, c.shape_of(x)));
}

/// sdpa(q, k, v, mask?, scale?) of [B, H, S, D]; the mask is added.
void vulkan_sdpa(CallContext& c) {
  AttentionAttrs a;
  a.scale = c.d(4, 0);
  std::vector<ValueId> in{c.t(0), c.t(1), c.t(2)};
  if (!c.none(3)) in.push_back(c.cast(c.t(3), c.dtype(in[0])));
  c.emit(Op::kAttention, a, in);
}

/// select_as_symint(x, dim, index): one number of a tensor.
void select_as_symint(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t axis = c.axis(c.i(1), c.rank(x)), index = c.i(2);
  c.result(c.reshape(c.cast(c.slice(x, axis, index, index == -1 ? INT64_MAX : index + 1), DType::kI64), {}));
}

/// embedding_q4gsw(weights [rows, width / 2], scales [rows, groups] or one, group, indices, is_linear_weight): the
/// first of two numbers lies in the high half of a byte, in linear weights in the low half. Only the gathered rows are
/// unpacked.
void embedding_q4gsw(CallContext& c) {
  const ValueId w = c.t(0), scales = c.t(1), indices = c.cast(c.t(3), DType::kI64);
  const int64_t width = 2 * c.dim(w, 1), group = c.i(2);
  if (!c.ok()) return;
  if (c.rank(w) != 2 || width <= 0 || group <= 0 || width % group != 0)
    return c.fail("weights ", c.type(w).str(), " in groups of ", group);
  const ValueId list = c.reshape(indices, {-1});
  const auto rows_of = [&](ValueId table) { return c.add(Op::kGather, GatherAttrs(), {table, list}); };
  const ValueId bytes = c.cast(rows_of(w), DType::kU8);
  ValueId high = c.binary(Binary::kShiftRightLogical, bytes, c.integer(DType::kU8, 4));
  ValueId low = c.binary(Binary::kBitAnd, bytes, c.integer(DType::kU8, 15));
  if (c.flag(4)) std::swap(high, low);
  ValueId y = c.reshape(c.add(Op::kStack, AxisAttrs(-1), {high, low}), {-1, width / group, group});
  y = c.binary(Binary::kSub, c.cast(y, DType::kF32), c.number(DType::kF32, 8));
  const ValueId scale = c.cast(c.rank(scales) == 2 ? rows_of(scales) : scales, DType::kF32);
  y = c.binary(Binary::kMul, y, c.rank(scales) == 2 ? c.unsqueeze(scale, {2}) : c.reshape(scale, {1, 1, 1}));
  c.result(c.like_indices(y, indices, width));
}

/// conv1d_pw and conv1d_dw(x, weight, bias?, stride, padding, dilation, groups, min?, max?): a convolution that clamps.
void conv1d(CallContext& c) {
  if (c.count() < 7) return c.fail(c.count(), " arguments, 7 expected");
  std::vector<Arg> args(c.call.args.begin(), c.call.args.begin() + 6);
  args.push_back(Arg::boolean(false));
  args.push_back(Arg::int_list({{0}}));
  args.push_back(c.arg(6));
  auto lowered = lower(c.builder(), {.name = "aten::convolution",
                                     .overload = "default",
                                     .args = args,
                                     .outputs = c.call.outputs,
                                     .out_variant = false});
  if (!lowered.ok()) return c.fail(lowered.error());
  const ValueId y = lowered->outputs.at(0);
  c.result(c.none(7) && c.none(8) ? y : c.unary(Unary::kClamp, y, c.d(7, -INFINITY), c.d(8, INFINITY)));
}

constexpr OpEntry kEntries[] = {
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
    {"et_vk::sdpa", vulkan_sdpa},
    {"et_vk::select_as_symint", select_as_symint},
    {"et_vk::embedding_q4gsw", embedding_q4gsw},
    {"et_vk::conv1d_pw", conv1d},
    {"et_vk::conv1d_dw", conv1d},
};

}  // namespace

std::span<const OpEntry> vulkan_quantized_entries() { return kEntries; }

}  // namespace smelt::aten
