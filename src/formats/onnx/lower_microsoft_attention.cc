// com.microsoft: attention in its several forms, rotary embedding; LinearAttention of both domains.
#include <algorithm>

#include "formats/onnx/microsoft.h"
#include "formats/onnx/ops.h"
#include "ops/attention/attention.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {

ValueId dimension(NodeContext& n, ValueId x, int64_t axis) { return n.squeeze(n.dims_of(x, axis, axis + 1), {0}); }

ValueId range(NodeContext& n, ValueId end) { return n.range(n.scalar(DType::kI64, 0), end, n.scalar(DType::kI64, 1)); }

ValueId additive_mask(NodeContext& n, ValueId mask, ValueId x, ValueId keys, double filter, DType dtype) {
  const int rank = n.rank_or_fail(mask);
  if (!n.ok()) return kNoValue;
  const ValueId hidden = n.scalar(dtype, filter), seen = n.scalar(dtype, 0);
  if (rank >= 2) {
    const ValueId raw = n.binary(Binary::kNotEqual, mask, n.scalar_like(mask, 0));
    const ValueId additive = n.where(raw, seen, hidden);
    if (rank == 2) return n.unsqueeze(additive, {1, 2});
    return rank == 3 ? n.unsqueeze(additive, {1}) : additive;
  }
  const ValueType mt = n.type(mask), xt = n.type(x);
  const int64_t batch = xt.ranked ? xt.shape[0] : -1, count = mt.shape[0];
  const ValueId positions = range(n, keys);
  const auto before = [&](ValueId ends) {
    return n.binary(Binary::kLess, positions, n.unsqueeze(n.cast(ends, DType::kI64), {1}));
  };
  ValueId inside;
  if (batch > 0 && count == batch) {
    inside = before(mask);
  } else if (batch > 0 && count > 0 && count != 2 * batch && count != 3 * batch + 2) {
    n.unsupported("a mask index of ", count, " entries for a batch of ", batch);
    return kNoValue;
  } else {
    const ValueId first = n.dims_of(x, 0, 1), twice = n.binary(Binary::kAdd, first, first);
    const auto part = [&](ValueId v, ValueId from, ValueId to) { return n.add(Op::kSlice, {v, from, to, n.i64({0})}); };
    inside = before(part(mask, n.i64({0}), first));
    // Starts, where the entries are two a row; none else.
    const ValueId padded = n.concat({mask, n.fill(first, n.scalar_like(mask, 0))}, 0);
    const ValueId two = n.binary(Binary::kEqual, n.dims_of(mask), twice);
    const ValueId outside = n.binary(Binary::kLogicalAnd, two, before(part(padded, first, twice)));
    inside = n.binary(Binary::kLogicalAnd, inside, n.unary(Unary::kNot, outside));
  }
  return n.unsqueeze(n.where(inside, seen, hidden), {1, 2});
}

ValueId joined(NodeContext& n, ValueId a, ValueId b) {
  return a == kNoValue ? b : b == kNoValue ? a : n.binary(Binary::kAdd, a, b);
}

ValueId split_heads(NodeContext& n, ValueId x, int64_t heads) {
  return n.transpose(n.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3});
}

ValueId merge_heads(NodeContext& n, ValueId x) { return n.reshape(n.transpose(x, {0, 2, 1, 3}), {0, 0, -1}); }

namespace {

struct BertInputs {
  ValueId qkv = kNoValue;  ///< [B, S, 3 * hidden]
  int mask = 3, past = 4, bias = -1;
};

void bert_attention(NodeContext& n, const BertInputs& in) {
  AttentionAttrs a;
  a.num_heads = a.kv_heads = n.i("num_heads", 0);
  if (a.num_heads < 1) return n.fail("num_heads is ", a.num_heads);
  a.scale = n.f("scale", 0);
  a.causal = n.flag("unidirectional");
  a.causal_from_end = true;
  SplitAttrs three;
  three.axis = 2;
  three.count = 3;
  std::vector<ValueId> split{in.qkv};
  if (const auto sizes = n.ints("qkv_hidden_sizes"); !sizes.empty()) {
    if (sizes.size() != 3) return n.fail("qkv_hidden_sizes has ", sizes.size(), " entries");
    split.push_back(n.i64(sizes));
    three.count = 0;
  }
  const auto qkv = n.add_n(Op::kSplit, three, split, 3);
  std::vector<ValueId> args{qkv[0], qkv[1], qkv[2], kNoValue};
  ValueId keys = dimension(n, in.qkv, 1);
  if (n.has(in.past)) {
    const auto past = n.add_n(Op::kUnstack, AxisAttrs(0), {n.in(in.past)}, 2);
    args.insert(args.end(), past.begin(), past.end());
    keys = n.binary(Binary::kAdd, keys, dimension(n, past[0], 2));
  }
  const DType dtype = n.dtype(in.qkv) == DType::kInvalid ? DType::kF32 : n.dtype(in.qkv);
  if (n.has(in.mask)) args[3] = additive_mask(n, n.in(in.mask), in.qkv, keys, n.f("mask_filter_value", -10000), dtype);
  if (in.bias >= 0 && n.has(in.bias)) args[3] = joined(n, args[3], n.in(in.bias));
  while (args.back() == kNoValue) args.pop_back();
  const auto out = n.add_n(Op::kAttention, a, args, n.wants(1) ? 3 : 1);
  n.bind(0, out[0]);
  if (n.wants(1)) n.bind(1, n.add(Op::kStack, AxisAttrs(0), {out[1], out[2]}));
}

void lower_bert_attention(NodeContext& n) {
  if (n.flag("do_rotary")) return n.unsupported("rotary embedding inside Attention");
  ValueId qkv = n.add(Op::kMatMul, MatMulAttrs(), {n.in(0), n.in(1)});
  if (n.has(2)) qkv = n.binary(Binary::kAdd, qkv, n.in(2));
  bert_attention(n, {qkv, 3, 4, 5});
}

void lower_q_attention(NodeContext& n) {
  const ValueId x = dequantized(n, {0, 3, 6}), w = dequantized(n, {1, 4, 7}, 1);
  const ValueId product = n.add(Op::kMatMul, MatMulAttrs(), {x, w});
  bert_attention(n, {n.binary(Binary::kAdd, product, n.in(2)), 5, 8, -1});
}

void lower_multi_head_attention(NodeContext& n) {
  AttentionAttrs a;
  const int64_t heads = n.i("num_heads", 0);
  if (heads < 1) return n.fail("num_heads is ", heads);
  a.scale = n.f("scale", 0);
  a.causal = n.flag("unidirectional");
  a.causal_from_end = true;
  ValueId q = n.in(0), k = n.opt(1), v = n.opt(2);
  const int rank = n.rank_or_fail(q);
  if (rank == 5) {  // packed [B, S, heads, 3, D]
    const auto parts = n.add_n(Op::kUnstack, AxisAttrs(3), {q}, 3);
    q = n.reshape(parts[0], {0, 0, -1});
    k = n.reshape(parts[1], {0, 0, -1});
    v = n.reshape(parts[2], {0, 0, -1});
  } else if (k != kNoValue && n.rank_or_fail(k) == 5) {  // packed [B, T, heads, 2, D]
    const auto parts = n.add_n(Op::kUnstack, AxisAttrs(3), {k}, 2);
    k = n.reshape(parts[0], {0, 0, -1});
    v = n.reshape(parts[1], {0, 0, -1});
  }
  if (k == kNoValue || v == kNoValue) return n.fail("key or value is missing");
  const bool ready = n.rank_or_fail(k) == 4;  // keys and values already [B, heads, T, D]
  if (n.has(3)) {
    const ValueType qt = n.type(q), bt = n.type(n.in(3));
    const int64_t width = qt.ranked ? qt.shape.back() : -1, total = bt.ranked ? bt.shape.back() : -1;
    // The values may have another width than the queries and keys.
    const int64_t v_width = width >= 0 && total > width ? total - width - width : width;
    SplitAttrs parts;
    std::vector<ValueId> split{n.in(3)};
    if (width < 0)
      parts.count = 3;  // equal parts
    else
      split.push_back(n.i64({width, width, v_width}));
    const auto bias = n.add_n(Op::kSplit, parts, split, 3);
    q = n.binary(Binary::kAdd, q, bias[0]);
    if (!ready) {
      k = n.binary(Binary::kAdd, k, bias[1]);
      v = n.binary(Binary::kAdd, v, bias[2]);
    }
  }
  ValueId keys = dimension(n, k, ready ? 2 : 1);
  std::vector<ValueId> args{split_heads(n, q, heads), ready ? k : split_heads(n, k, heads),
                            ready ? v : split_heads(n, v, heads), kNoValue};
  if (n.has(6) || n.has(7)) {
    args.push_back(n.in(6));
    args.push_back(n.in(7));
    keys = n.binary(Binary::kAdd, keys, dimension(n, args[4], 2));
  }
  const DType dtype = n.dtype(q) == DType::kInvalid ? DType::kF32 : n.dtype(q);
  if (n.has(4)) args[3] = additive_mask(n, n.in(4), q, keys, n.f("mask_filter_value", -10000), dtype);
  if (n.has(5)) args[3] = joined(n, args[3], n.in(5));
  while (args.back() == kNoValue) args.pop_back();
  if (n.wants(3)) a.qk_output = 2;
  const auto out = n.add_n(Op::kAttention, a, args, n.wants(3) ? 4 : n.wants(1) || n.wants(2) ? 3 : 1);
  n.bind(0, merge_heads(n, out[0]));
  for (size_t i = 1; i < out.size(); ++i) n.bind(static_cast<int>(i), out[i]);
}

/// Each head of x [B, S, heads * D] divided by the root of its mean square, times a weight [D].
ValueId normalized_heads(NodeContext& n, ValueId x, int64_t heads, ValueId weight, double epsilon) {
  LayerNormAttrs a;
  a.axis = -1;
  a.rms = true;
  a.epsilon = epsilon;
  return n.reshape(n.add(Op::kLayerNorm, a, {n.reshape(x, {0, 0, heads, -1}), weight}), {0, 0, -1});
}

void lower_group_query_attention(NodeContext& n) {
  GroupQueryAttrs a;
  a.num_heads = n.i("num_heads", 0);
  a.kv_heads = n.i("kv_num_heads", 0);
  if (a.num_heads < 1 || a.kv_heads < 1) return n.fail("num_heads is ", a.num_heads, ", kv_num_heads is ", a.kv_heads);
  a.scale = n.f("scale", 0);
  a.softcap = n.f("softcap", 0);
  a.window = n.i("local_window_size", -1);
  a.rotary = n.flag("do_rotary");
  a.interleaved = n.flag("rotary_interleaved");
  a.smooth_softmax = n.i("smooth_softmax", 0) == 1;
  a.causal = n.i("causal", 1) != 0;
  if (!a.causal && a.window > 0) return n.fail("local_window_size ", a.window, " without causal");
  a.qk_output = n.i("qk_output", 0);
  if (a.qk_output < 0 || a.qk_output > 2) return n.fail("qk_output is ", a.qk_output, ", 0, 1 or 2 expected");
  if (n.wants(3) && a.qk_output == 0) return n.fail("output 3 is wanted, but qk_output is 0");
  a.window_cache = n.flag("sliding_window_cache");
  if (a.window_cache && (a.window < 1 || !a.causal || a.qk_output != 0))
    return n.fail("sliding_window_cache with local_window_size ", a.window, ", causal ", a.causal, ", qk_output ",
                  a.qk_output);
  for (const char* kind : {"k_quant_type", "v_quant_type"})
    if (const std::string type = n.s(kind, "NONE"); type != "NONE")
      return n.fail(kind, " '", type, "' is not supported");
  constexpr int kSupported = 12;
  for (const int k : {12, 13, 16})
    if (n.has(k)) return n.fail("input ", k, " (scales of caches, query_seqlens) is not supported");
  std::vector<ValueId> in;
  for (int k = 0; k < kSupported; ++k) in.push_back(n.opt(k));
  if (in[0] == kNoValue || in[5] == kNoValue) return n.fail("the query or seqlens_k is missing");
  if (n.has(14)) {
    const ValueId q_weight = n.in(14), k_weight = n.in(15);
    if (in[1] == kNoValue) {
      const ValueType wt = n.type(q_weight);
      const int64_t width = wt.ranked && wt.shape.rank() == 1 ? wt.shape[0] : -1;
      if (width < 1 || width > 65536 || std::max(a.num_heads, a.kv_heads) > 65536)
        return n.unsupported("an unknown shape of the norm's weight");
      SplitAttrs parts;
      parts.axis = 2;
      const auto qkv =
          n.add_n(Op::kSplit, parts, {in[0], n.i64({a.num_heads * width, a.kv_heads * width, a.kv_heads * width})}, 3);
      std::copy(qkv.begin(), qkv.end(), in.begin());
    }
    const double epsilon = n.f("qk_norm_epsilon", 1e-6f);
    in[0] = normalized_heads(n, in[0], a.num_heads, q_weight, n.f("q_norm_epsilon", epsilon));
    in[1] = normalized_heads(n, in[1], a.kv_heads, k_weight, n.f("k_norm_epsilon", epsilon));
  }
  while (in.back() == kNoValue) in.pop_back();
  n.emit(Op::kGroupQueryAttention, a, in);
}

void lower_ms_rotary(NodeContext& n) {
  RotaryAttrs a;
  a.interleaved = n.flag("interleaved");
  a.rotary_dim = n.i("rotary_embedding_dim", 0);
  a.num_heads = n.i("num_heads", 0);
  a.scale = n.f("scale", 1);
  const ValueId x = n.in(0), cos = n.in(2), sin = n.in(3);
  ValueId positions = n.in(1);
  const int rank = n.rank_or_fail(x);
  const ValueType xt = n.type(x), ct = n.type(cos);
  const int64_t width = rank == 3 ? xt.shape[2] : -1;
  const int64_t half = ct.ranked && ct.shape.rank() == 2 ? ct.shape[1] : -1;
  const bool cut = rank == 3 && a.num_heads == 0 && width < 1;  // into heads, whose number only a run shows
  if (rank == 3 && a.num_heads == 0) {
    if (half < 1) return n.unsupported("the width of the cos cache must be known at load");
    a.num_heads = cut ? 0 : width / (2 * half);
  }
  if (n.rank(positions) == 1 || n.rank(positions) == 0) {
    // One offset: positions count up from it in every batch entry.
    const ValueId length = dimension(n, x, rank == 4 ? 2 : 1);
    const ValueId row = n.binary(Binary::kAdd, range(n, length), n.cast(positions, DType::kI64));
    const ValueId shape = n.concat({n.unsqueeze(dimension(n, x, 0), {0}), n.unsqueeze(length, {0})}, 0);
    positions = n.expand(row, shape);
  }
  if (!cut) return n.emit(Op::kRotary, a, {x, cos, sin, positions});
  a.batch_seq_heads = true;
  const ValueId turned = n.add(Op::kRotary, a, {n.reshape(x, {0, 0, -1, 2 * half}), cos, sin, positions});
  n.bind(0, n.reshape(turned, {0, 0, -1}));
}

constexpr OpEntry kOps[] = {
    {"Attention", 1, lower_bert_attention},
    {"QAttention", 1, lower_q_attention},
    {"MultiHeadAttention", 1, lower_multi_head_attention},
    {"GroupQueryAttention", 1, lower_group_query_attention},
    {"RotaryEmbedding", 1, lower_ms_rotary},
    {"LinearAttention", 1, lower_linear_attention},
};

}  // namespace

void lower_linear_attention(NodeContext& n) {
  LinearAttentionAttrs a;
  a.q_heads = n.i("q_num_heads", 0);
  a.kv_heads = n.i("kv_num_heads", 0);
  a.scale = n.f("scale", 0);
  n.i("chunk_size", 64);
  const std::string rule = n.s("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    return n.fail("update_rule is '", rule, "'");
  a.gated = rule.starts_with("gated");
  a.delta = rule.ends_with("delta");
  if ((a.gated && !n.has(4)) || (a.delta && !n.has(5))) return n.fail("decay or beta is missing for rule '", rule, "'");
  n.emit(Op::kLinearAttention, a, n.operands(3, 6));
}

std::span<const OpEntry> microsoft_attention_ops() { return kOps; }

}  // namespace smelt::onnx
