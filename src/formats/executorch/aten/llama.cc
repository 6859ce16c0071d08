// Custom operators of language models: caches and attention over them. Heads follow the sequence: [B, S, H, D].
#include <cmath>
#include <vector>

#include "base/error.h"
#include "formats/executorch/aten/lowering.h"

namespace smelt::aten {
namespace {

/// cache[:, start : start + S] = fresh.
ValueId appended(CallContext& c, ValueId cache, ValueId fresh, ValueId start) {
  return c.add(Op::kKvAppend, KvAppendAttrs(), {cache, c.cast(fresh, c.dtype(cache)), start});
}

/// [B, S, H, D] as [B, S, H * D]. Precondition: the last two dimensions are known.
ValueId flat(CallContext& c, ValueId x) {
  const int64_t columns = c.dim(x, 2) * c.dim(x, 3);
  const ValueId shape = c.add(Op::kConcat, AxisAttrs(0), {c.dims_of(x, 0, 2), c.i64({columns})});
  return c.reshape_to(x, shape);
}

/// Attention of q [B, S, H, D] over k and v [B, T, Hkv, D]: without a mask over the first start + S keys, each query
/// seeing those up to its own position when causal.
ValueId attend(CallContext& c, ValueId q, ValueId k, ValueId v, ValueId start, ValueId mask, bool causal,
               double scale) {
  if (c.rank(q) != 4 || c.rank(k) != 4 || c.rank(v) != 4) {
    c.fail("attention operands must have rank 4");
    return kNoValue;
  }
  const auto heads_first = [&](ValueId x) { return c.transpose(x, {0, 2, 1, 3}); };
  AttentionAttrs a;
  a.scale = scale;
  a.causal = causal && mask == kNoValue;
  a.causal_from_end = true;
  if (mask == kNoValue) {
    const ValueId length = c.binary(Binary::kAdd, c.dims_of(q, 1, 2), c.reshape(start, {1}));
    const auto known = [&](ValueId x) { return c.dim(x, 2) > 0 && c.dim(x, 3) > 0; };
    if (known(k) && known(v)) {  // they stay where they lie
      a.kv_heads = c.dim(k, 2);
      const ValueId none = kNoValue;
      return heads_first(c.add(Op::kAttention, a, {heads_first(q), flat(c, k), flat(c, v), none, none, none, length}));
    }
    const auto first = [&](ValueId x) { return c.add(Op::kSlice, {x, c.i64({0}), length, c.i64({1}), c.i64({1})}); };
    k = first(k);
    v = first(v);
  } else if (c.dtype(mask) != DType::kBool) {
    mask = c.cast(mask, c.dtype(q));
  }
  std::vector<ValueId> in{heads_first(q), heads_first(k), heads_first(v)};
  if (mask != kNoValue) in.push_back(mask);
  return heads_first(c.add(Op::kAttention, a, in));
}

/// (query, key, value, key_cache!, value_cache!, start_pos, seq_len, mask?, dropout, is_causal, scale?).
void sdpa_with_kv_cache(CallContext& c) {
  const ValueId start = c.int_value(5);
  const ValueId k = appended(c, c.t(3), c.t(1), start), v = appended(c, c.t(4), c.t(2), start);
  c.lowered.mutated.emplace_back(3, k);
  c.lowered.mutated.emplace_back(4, v);
  c.result(attend(c, c.t(0), k, v, start, c.opt(7), c.flag(9), c.d(10, 0)));
}

/// (query, key, value, start_pos, mask?, dropout, is_causal, scale?).
void custom_sdpa(CallContext& c) {
  c.result(attend(c, c.t(0), c.t(1), c.t(2), c.int_value(3), c.opt(4), c.flag(6), c.d(7, 0)));
}

/// custom_sdpa with int8 operands, a scale and a zero point for each row, and perhaps heads before the sequence.
void custom_quantized_sdpa(CallContext& c) {
  const bool heads_first = c.flag(14);
  const auto real = [&](size_t x, size_t zero) {
    const ValueId q = c.t(x);
    ValueId y = q;
    if (!is_float(c.dtype(q))) {
      const DType f = DType::kF32;
      y = c.binary(Binary::kSub, c.cast(q, f), c.cast(c.t(zero), f));
      y = c.binary(Binary::kMul, y, c.cast(c.t(zero + 1), f));
    }
    return heads_first ? c.transpose(y, {0, 2, 1, 3}) : y;
  };
  const ValueId y = attend(c, real(0, 8), real(1, 10), real(2, 12), c.int_value(3), c.opt(4), c.flag(6), c.d(7, 0));
  c.result(heads_first ? c.transpose(y, {0, 2, 1, 3}) : y);
}

/// Argument 1 changes. The result stands for it: programs declare some placeholder and do not read it.
void cache_changed(CallContext& c, ValueId cache) {
  c.lowered.mutated.emplace_back(1, cache);
  const int wanted = c.out_rank();
  if (!c.ok() || wanted < 0 || wanted == c.rank(cache)) return c.result(cache);
  const Shape& shape = c.call.outputs[0].shape;
  c.result(c.filled(c.i64({shape.begin(), shape.end()}), c.dtype(cache), 0));
}

/// update_cache(value, cache!, start_pos).
void update_cache(CallContext& c) { cache_changed(c, appended(c, c.t(1), c.t(0), c.int_value(2))); }

/// update_cache_with_indices(value, cache!, start_pos, indices [B, S]).
void update_cache_with_indices(CallContext& c) {
  const ValueId fresh = c.t(0), cache = c.t(1), at = c.cast(c.t(3), DType::kI64);
  const int64_t batch = c.dim(cache, 0);
  if (batch < 0) return c.unsupported("update_cache_with_indices of an unknown batch");
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < batch && i < 65536; ++i) rows.push_back(i);
  const ValueId first = c.reshape(c.i64(rows), {-1, 1});
  cache_changed(c, c.add(Op::kIndexPut, IndexAttrs(), {cache, c.cast(fresh, c.dtype(cache)), first, at}));
}

/// Rows times the normalised Walsh-Hadamard matrix.
void fast_hadamard(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t n = c.dim(x, c.rank(x) - 1);
  if (n <= 0 || n > 8192 || (n & (n - 1))) return c.unsupported("fast_hadamard_transform of ", n, " columns");
  Tensor h(DType::kF32, Shape{n, n});
  const float one = static_cast<float>(1 / std::sqrt(static_cast<double>(n)));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      h.data<float>()[i * n + j] = __builtin_parityll(static_cast<uint64_t>(i & j)) ? -one : one;
  const ValueId y = c.add(Op::kMatMul, MatMulAttrs(), {c.cast(x, DType::kF32), c.constant(std::move(h))});
  c.result(c.cast(y, c.dtype(x)));
}

/// query [B, Hq, T, K], key, decay [B, H, T, K] or [B, H, T], value [B, H, T, V], beta [B, H, T], state [B, H, K, V]:
/// linear attention whose state each token decays and corrects. Gives the output [B, Hq, T, V] and the new state.
std::vector<ValueId> gated_delta_rule(CallContext& c, ValueId log_decay) {
  const ValueId q = c.t(0), k = c.t(1), v = c.t(2), beta = c.t(4), state = c.t(5);
  if (c.rank(q) != 4 || c.rank(k) != 4 || c.rank(v) != 4 || c.rank(beta) != 3 || c.rank(state) != 4) {
    c.fail("a gated delta rule takes query, key, value and state of rank 4 and beta of rank 3");
    return {kNoValue, kNoValue};
  }
  const int64_t batch = c.dim(state, 0), width = c.dim(v, 3);
  LinearAttentionAttrs a;
  a.q_heads = c.dim(q, 1);
  a.kv_heads = c.dim(k, 1);
  a.scale = 1;
  a.gated = a.delta = true;
  if (batch < 0 || width < 0 || a.q_heads < 1 || a.kv_heads < 1 || a.q_heads % a.kv_heads != 0) {
    c.fail("a gated delta rule with ", a.q_heads, " query heads, ", a.kv_heads, " key heads, batch ", batch,
           " and values of width ", width);
    return {kNoValue, kNoValue};
  }
  // Tokens before heads, the heads of a token side by side.
  const auto tokens_first = [&](ValueId x) {
    if (c.rank(x) == 3) return c.transpose(x, {0, 2, 1});
    return c.reshape(c.transpose(x, {0, 2, 1, 3}), {batch, -1, c.dim(x, 1) * c.dim(x, 3)});
  };
  const auto both = c.add_n(
      Op::kLinearAttention, a,
      {tokens_first(q), tokens_first(k), tokens_first(v), state, tokens_first(log_decay), tokens_first(beta)}, 2);
  const ValueId y = c.reshape(both[0], {batch, -1, a.q_heads, width});
  return {c.transpose(y, {0, 2, 1, 3}), both[1]};
}

/// (query, key, value, decay, beta, initial_state) -> output, final state; the decay of each key channel is a factor.
void channelwise_gated_delta_rule(CallContext& c) {
  for (ValueId v : gated_delta_rule(c, c.unary(Unary::kLog, c.cast(c.t(3), DType::kF64)))) c.result(v);
}

/// (query, key, value, g, beta, recurrent_state!): the decay of each head is exp(g).
void recurrent_gated_delta_rule(CallContext& c) {
  const auto both = gated_delta_rule(c, c.t(3));
  c.result(both[0]);
  c.lowered.mutated.emplace_back(5, both[1]);
}

/// tile_crop(image [C, H, W], size) -> [H / size * W / size, C, size, size].
void tile_crop(CallContext& c) {
  const ValueId x = c.t(0);
  const int64_t size = c.i(1);
  if (c.rank(x) != 3 || size < 1) return c.fail("tile_crop of ", c.type(x).str(), " by ", size);
  const ValueId extent = c.shape_of(x);
  const auto tiles = [&](int64_t axis) {
    const ValueId n = c.reshape(c.slice(extent, 0, axis, axis + 1), {});
    return Int{0, c.binary(Binary::kTruncDiv, n, c.integer(DType::kI64, size))};
  };
  const Int channels{0, c.reshape(c.slice(extent, 0, 0, 1), {})};
  const ValueId grid = c.int_vector({channels, tiles(1), Int{size, kNoValue}, tiles(2), Int{size, kNoValue}});
  const ValueId cut = c.reshape_to(x, grid);
  const ValueId shape = c.int_vector({Int{-1, kNoValue}, channels, Int{size, kNoValue}, Int{size, kNoValue}});
  c.result(c.reshape_to(c.transpose(cut, {1, 3, 0, 2, 4}), shape));
}

constexpr OpEntry kEntries[] = {
    {"llama::sdpa_with_kv_cache", sdpa_with_kv_cache},
    {"llama::custom_sdpa", custom_sdpa},
    {"llama::custom_quantized_sdpa", custom_quantized_sdpa},
    {"llama::update_cache", update_cache},
    {"llama::update_cache_with_indices", update_cache_with_indices},
    {"llama::fast_hadamard_transform", fast_hadamard},
    {"llama::channelwise_gated_delta_rule", channelwise_gated_delta_rule},
    {"llama::recurrent_gated_delta_rule", recurrent_gated_delta_rule},
    {"llama::fallback", [](CallContext& c) { c.result(c.unary(Unary::kIdentity, c.t(0))); }},
    {"preprocess::tile_crop", tile_crop},
    {"aten::sdpa_with_kv_cache", sdpa_with_kv_cache},
};

}  // namespace

std::span<const OpEntry> llama_entries() { return kEntries; }

}  // namespace smelt::aten
