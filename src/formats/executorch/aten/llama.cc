// Custom operators of language models: caches and attention over them. Heads follow the sequence: [B, S, H, D].
#include <cmath>
#include <vector>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// cache[:, start : start + S] = fresh.
ValueId appended(L& l, ValueId cache, ValueId fresh, ValueId start) {
  return l.op(Op::kKvAppend, make_attrs<KvAppendAttrs>(), {cache, l.cast(fresh, l.dtype(cache)), start});
}

/// Attention of q [B, S, H, D] over k and v [B, T, Hkv, D]: without a mask over the first start + S keys, each query
/// seeing those up to its own position when causal.
ValueId attend(L& l, ValueId q, ValueId k, ValueId v, ValueId start, ValueId mask, bool causal, double scale) {
  if (l.rank(q) != 4 || l.rank(k) != 4 || l.rank(v) != 4) {
    l.fail(InvalidModel("attention operands must have rank 4"));
    return kNoValue;
  }
  if (mask == kNoValue) {
    ShapeOfAttrs s;
    s.start = 1;
    s.end = 2;
    const ValueId length = l.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(s), {q});
    const ValueId end = l.binary(Binary::kAdd, length, l.reshape(start, {1}));
    const auto head = [&](ValueId x) {
      return l.op(Op::kSlice, make_attrs<NoAttrs>(), {x, l.b.i64({0}), end, l.b.i64({1}), l.b.i64({1})});
    };
    k = head(k);
    v = head(v);
  } else if (l.dtype(mask) != DType::kBool) {
    mask = l.cast(mask, l.dtype(q));
  }
  AttentionAttrs a;
  a.scale = scale;
  a.causal = causal && mask == kNoValue;
  a.causal_from_end = true;
  const auto heads_first = [&](ValueId x) { return l.transpose(x, {0, 2, 1, 3}); };
  std::vector<ValueId> in{heads_first(q), heads_first(k), heads_first(v)};
  if (mask != kNoValue) in.push_back(mask);
  return heads_first(l.op(Op::kAttention, make_attrs<AttentionAttrs>(a), in));
}

/// (query, key, value, key_cache!, value_cache!, start_pos, seq_len, mask?, dropout, is_causal, scale?).
void sdpa_with_kv_cache(L& l) {
  const ValueId start = l.int_value(5);
  const ValueId k = appended(l, l.t(3), l.t(1), start), v = appended(l, l.t(4), l.t(2), start);
  l.lowered.mutated.emplace_back(3, k);
  l.lowered.mutated.emplace_back(4, v);
  l.result(attend(l, l.t(0), k, v, start, l.opt(7), l.flag(9), l.d(10, 0)));
}

/// (query, key, value, start_pos, mask?, dropout, is_causal, scale?).
void custom_sdpa(L& l) { l.result(attend(l, l.t(0), l.t(1), l.t(2), l.int_value(3), l.opt(4), l.flag(6), l.d(7, 0))); }

/// The same with int8 operands, a scale and a zero point for each row, and perhaps heads before the sequence.
void custom_quantized_sdpa(L& l) {
  const bool heads_first = l.flag(14);
  const auto real = [&](size_t x, size_t zero) {
    const ValueId stored = l.t(x);
    ValueId y = stored;
    if (!is_float(l.dtype(stored))) {
      const DType f = DType::kF32;
      y = l.binary(Binary::kSub, l.cast(stored, f), l.cast(l.t(zero), f));
      y = l.binary(Binary::kMul, y, l.cast(l.t(zero + 1), f));
    }
    return heads_first ? l.transpose(y, {0, 2, 1, 3}) : y;
  };
  const ValueId y = attend(l, real(0, 8), real(1, 10), real(2, 12), l.int_value(3), l.opt(4), l.flag(6), l.d(7, 0));
  l.result(heads_first ? l.transpose(y, {0, 2, 1, 3}) : y);
}

/// Argument 1 changes. The result stands for it: programs declare some placeholder and do not read it.
void cache_changed(L& l, ValueId cache) {
  l.lowered.mutated.emplace_back(1, cache);
  const int wanted = l.out_rank();
  if (!l.ok() || wanted < 0 || wanted == l.rank(cache)) return l.result(cache);
  const Shape& shape = l.c.outputs[0].shape;
  l.result(l.fill(l.ints_const({shape.begin(), shape.end()}), l.dtype(cache), 0));
}

/// update_cache(value, cache!, start_pos).
void update_cache(L& l) { cache_changed(l, appended(l, l.t(1), l.t(0), l.int_value(2))); }

/// update_cache_with_indices(value, cache!, start_pos, indices [B, S]).
void update_cache_with_indices(L& l) {
  const ValueId fresh = l.t(0), cache = l.t(1), at = l.cast(l.t(3), DType::kI64);
  const int64_t batch = l.dim(cache, 0);
  if (batch < 0) return l.fail(Unsupported("update_cache_with_indices of an unknown batch"));
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < batch && i < 65536; ++i) rows.push_back(i);
  const ValueId first = l.reshape(l.ints_const(rows), {-1, 1});
  cache_changed(l, l.op(Op::kIndexPut, make_attrs<IndexAttrs>(), {cache, l.cast(fresh, l.dtype(cache)), first, at}));
}

/// Rows times the normalised Walsh-Hadamard matrix.
void fast_hadamard(L& l) {
  const ValueId x = l.t(0);
  const int64_t n = l.dim(x, l.rank(x) - 1);
  if (n <= 0 || n > 8192 || (n & (n - 1))) return l.fail(Unsupported("fast_hadamard_transform of ", n, " columns"));
  Tensor h(DType::kF32, Shape{n, n});
  const float one = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      h.data<float>()[i * n + j] = __builtin_parityll(static_cast<uint64_t>(i & j)) ? -one : one;
  const ValueId y =
      l.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {l.cast(x, DType::kF32), l.b.constant("", std::move(h))});
  l.result(l.cast(y, l.dtype(x)));
}

/// query [B, Hq, T, K], key, decay [B, H, T, K] or [B, H, T], value [B, H, T, V], beta [B, H, T], state [B, H, K, V]:
/// linear attention whose state each token decays and corrects. Gives the output [B, Hq, T, V] and the new state.
std::vector<ValueId> gated_delta_rule(L& l, ValueId log_decay) {
  const ValueId q = l.t(0), k = l.t(1), v = l.t(2), beta = l.t(4), state = l.t(5);
  if (l.rank(q) != 4 || l.rank(k) != 4 || l.rank(v) != 4 || l.rank(beta) != 3 || l.rank(state) != 4) {
    l.fail(InvalidModel("a gated delta rule takes query, key, value and state of rank 4 and beta of rank 3"));
    return {kNoValue, kNoValue};
  }
  const int64_t batch = l.dim(state, 0), width = l.dim(v, 3);
  LinearAttentionAttrs a;
  a.q_heads = l.dim(q, 1);
  a.kv_heads = l.dim(k, 1);
  a.scale = 1;
  a.gated = a.delta = true;
  if (batch < 0 || width < 0 || a.q_heads < 1 || a.kv_heads < 1 || a.q_heads % a.kv_heads != 0) {
    l.fail(InvalidModel("a gated delta rule with ", a.q_heads, " query heads, ", a.kv_heads, " key heads, batch ",
                        batch, " and values of width ", width));
    return {kNoValue, kNoValue};
  }
  // Tokens before heads, the heads of a token side by side.
  const auto tokens_first = [&](ValueId x) {
    if (l.rank(x) == 3) return l.transpose(x, {0, 2, 1});
    return l.reshape(l.transpose(x, {0, 2, 1, 3}), {batch, -1, l.dim(x, 1) * l.dim(x, 3)});
  };
  const auto both =
      l.ops(Op::kLinearAttention, make_attrs<LinearAttentionAttrs>(a),
            {tokens_first(q), tokens_first(k), tokens_first(v), state, tokens_first(log_decay), tokens_first(beta)}, 2);
  const ValueId y = l.reshape(both[0], {batch, -1, a.q_heads, width});
  return {l.transpose(y, {0, 2, 1, 3}), both[1]};
}

/// (query, key, value, decay, beta, initial_state) -> output, final state; the decay of each key channel is a factor.
void channelwise_gated_delta_rule(L& l) {
  for (ValueId v : gated_delta_rule(l, l.unary(Unary::kLog, l.cast(l.t(3), DType::kF64)))) l.result(v);
}

/// (query, key, value, g, beta, recurrent_state!): the decay of each head is exp(g).
void recurrent_gated_delta_rule(L& l) {
  const auto both = gated_delta_rule(l, l.t(3));
  l.result(both[0]);
  l.lowered.mutated.emplace_back(5, both[1]);
}

/// tile_crop(image [C, H, W], size) -> [H / size * W / size, C, size, size].
void tile_crop(L& l) {
  const ValueId x = l.t(0);
  const int64_t size = l.i(1);
  if (l.rank(x) != 3 || size < 1) return l.fail(InvalidModel("tile_crop of ", l.type(x).str(), " by ", size));
  const ValueId extent = l.shape_of(x);
  const auto tiles = [&](int64_t axis) {
    const ValueId n = l.reshape(l.slice(extent, 0, axis, axis + 1), {});
    return Int{0, l.binary(Binary::kTruncDiv, n, l.integer(DType::kI64, size))};
  };
  const Int channels{0, l.reshape(l.slice(extent, 0, 0, 1), {})};
  const ValueId grid = l.int_vector({channels, tiles(1), Int{size, kNoValue}, tiles(2), Int{size, kNoValue}});
  const ValueId cut = l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, grid});
  const ValueId shape = l.int_vector({Int{-1, kNoValue}, channels, Int{size, kNoValue}, Int{size, kNoValue}});
  l.result(l.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {l.transpose(cut, {1, 3, 0, 2, 4}), shape}));
}

constexpr Entry kEntries[] = {
    {"llama::sdpa_with_kv_cache", sdpa_with_kv_cache},
    {"llama::custom_sdpa", custom_sdpa},
    {"llama::custom_quantized_sdpa", custom_quantized_sdpa},
    {"llama::update_cache", update_cache},
    {"llama::update_cache_with_indices", update_cache_with_indices},
    {"llama::fast_hadamard_transform", fast_hadamard},
    {"llama::channelwise_gated_delta_rule", channelwise_gated_delta_rule},
    {"llama::recurrent_gated_delta_rule", recurrent_gated_delta_rule},
    {"llama::fallback", [](L& l) { l.result(l.unary(Unary::kIdentity, l.t(0))); }},
    {"preprocess::tile_crop", tile_crop},
    {"aten::sdpa_with_kv_cache", sdpa_with_kv_cache},
};

}  // namespace

std::span<const Entry> llama_entries() { return kEntries; }

}  // namespace smelt::aten
