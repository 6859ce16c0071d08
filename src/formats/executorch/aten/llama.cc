// Custom operators of language models: caches and attention over them. Heads follow the sequence: [B, S, H, D].
#include <cmath>

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
    return kNone;
  }
  if (mask == kNone) {
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
  a.causal = causal && mask == kNone;
  a.causal_from_end = true;
  const auto heads_first = [&](ValueId x) { return l.transpose(x, {0, 2, 1, 3}); };
  std::vector<ValueId> in{heads_first(q), heads_first(k), heads_first(v)};
  if (mask != kNone) in.push_back(mask);
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

constexpr Entry kEntries[] = {
    {"llama::sdpa_with_kv_cache", sdpa_with_kv_cache},
    {"llama::custom_sdpa", custom_sdpa},
    {"llama::custom_quantized_sdpa", custom_quantized_sdpa},
    {"llama::update_cache", update_cache},
    {"llama::update_cache_with_indices", update_cache_with_indices},
    {"llama::fast_hadamard_transform", fast_hadamard},
    {"aten::sdpa_with_kv_cache", sdpa_with_kv_cache},
};

}  // namespace

std::span<const Entry> llama_entries() { return kEntries; }

}  // namespace smelt::aten
