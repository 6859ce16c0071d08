#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/attention/geometry.h"
#include "ops/common/gemm.h"
#include "ops/common/operands.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Copies one operand to [batch, heads, length, depth], at `offset` of rows in heads of `total` rows.
template <class T>
void split_heads(const T* from, bool flat, int64_t batch, int64_t heads, int64_t length, int64_t depth, int64_t offset,
                 int64_t total, T* to) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t i = 0; i < length; ++i)
        std::copy_n(from + (flat ? (b * length + i) * heads + h : (b * heads + h) * length + i) * depth, depth,
                    to + ((b * heads + h) * total + offset + i) * depth);
}

/// Addends of the scores; nullptr: none.
template <class T>
Result<const T*> mask_values(KernelContext& ctx) {
  if (!ctx.has(3)) return nullptr;
  const Tensor& t = ctx.input(3);
  if (t.dtype() != DType::kBool) return operand<T>(ctx, t);
  SMELT_ASSIGN(T* const values, scratch_array<T>(ctx, t.elements()));
  for (int64_t i = 0, n = t.elements(); i < n; ++i)
    values[i] = t.data<uint8_t>()[i] ? T{0} : -std::numeric_limits<T>::infinity();
  return values;
}

/// Softmax of one row in place; a row without any visible key becomes zero, one with a NaN all NaN. `sink`: one more
/// logit, or null.
template <class T>
void softmax_row(T* row, int64_t n, bool smooth, const T* sink) {
  T top = smooth ? T{0} : -std::numeric_limits<T>::infinity();
  if (sink) top = std::max(top, *sink);
  for (int64_t j = 0; j < n; ++j)
    if (row[j] > top || std::isnan(row[j])) top = row[j];
  if (std::isinf(top) && top < 0) {
    std::fill_n(row, n, T{0});
    return;
  }
  double sum = smooth ? std::exp(-static_cast<double>(top)) : 0;
  if (sink) sum += std::exp(static_cast<double>(*sink - top));
  for (int64_t j = 0; j < n; ++j) {
    row[j] = std::exp(row[j] - top);
    sum += static_cast<double>(row[j]);
  }
  for (int64_t j = 0; j < n; ++j) row[j] = static_cast<T>(static_cast<double>(row[j]) / sum);
}

/// Softcap, mask and softmax on the raw scores [rows, keys] of one head; `seen` gets the stage that output 3 wants.
template <class T>
void weigh(const AttentionAttrs& a, const AttentionGeometry& g, const AttentionMask& mask, const T* added, int64_t b,
           int64_t h, const KeySpan& span, const T* sink, T* scores, T* seen) {
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  const int64_t n = g.keys;
  for (int64_t i = 0; i < g.rows; ++i) {
    T* row = scores + i * n;
    const auto show = [&](int64_t stage) {
      if (seen && a.qk_output == stage) std::copy_n(row, n, seen + i * n);
    };
    show(0);
    if (a.softcap > 0) {
      const T cap = static_cast<T>(a.softcap);
      for (int64_t j = 0; j < n; ++j) row[j] = cap * std::tanh(row[j] / cap);
    }
    show(1);
    if (added) {
      const T* extra = added + mask.row(b, h, i);
      for (int64_t j = 0; j < n; ++j) row[j] = j < mask.keys ? row[j] + extra[j * mask.strides[3]] : hidden;
    }
    const VisibleKeys v = visible_keys(a, span.offset + i, span.valid);
    std::fill(row, row + v.begin, hidden);
    std::fill(row + v.end, row + n, hidden);
    show(2);
    softmax_row(row, n, a.smooth_softmax, sink);
    show(3);
  }
}

template <class T>
Result<T*> heads(KernelContext& ctx, int input, int past, bool flat, const AttentionGeometry& g, int64_t count,
                 int64_t length, int64_t depth) {
  const int64_t before = past >= 0 && ctx.has(past) ? g.past : 0, total = before + length;
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, g.batch * count * total * depth));
  SMELT_ASSIGN(const T* const from, operand<T>(ctx, ctx.input(input)));
  if (before > 0) {
    if (ctx.input(past).elements() != g.batch * count * before * depth)
      return InvalidInput("a past of shape ", ctx.input(past).shape().str(), " does not fit attention");
    SMELT_ASSIGN(const T* const old, operand<T>(ctx, ctx.input(past)));
    split_heads(old, false, g.batch, count, before, depth, 0, total, out);
  }
  split_heads(from, flat, g.batch, count, length, depth, before, total, out);
  return out;
}

template <class T>
Status attend(KernelContext& ctx, const AttentionAttrs& a, const AttentionGeometry& g) {
  if (ctx.has(4) != ctx.has(5)) return InvalidModel("attention takes past keys and past values together");
  SMELT_ASSIGN(const T* const q, heads<T>(ctx, 0, -1, g.flat_q, g, g.q_heads, g.rows, g.depth));
  SMELT_ASSIGN(T* const k, heads<T>(ctx, 1, 4, g.flat_k, g, g.kv_heads, g.fresh, g.depth));
  SMELT_ASSIGN(T* const v, heads<T>(ctx, 2, 5, g.flat_v, g, g.kv_heads, g.fresh, g.v_depth));
  if (ctx.wants(1)) store(k, ctx.output(1));
  if (ctx.wants(2)) store(v, ctx.output(2));
  AttentionMask mask;
  if (ctx.has(3)) {
    SMELT_ASSIGN(mask, attention_mask(g, ctx.input(3).shape()));
  }
  SMELT_ASSIGN(const T* const added, mask_values<T>(ctx));
  SMELT_ASSIGN(const T* const sinks, optional_operand<T>(ctx, 7));
  if (sinks && ctx.input(7).elements() != g.q_heads)
    return InvalidInput(ctx.input(7).elements(), " attention sinks for ", g.q_heads, " heads");
  SMELT_ASSIGN(T* const turned, scratch_array<T>(ctx, g.depth * g.keys));
  SMELT_ASSIGN(T* const scores, scratch_array<T>(ctx, g.rows * g.keys));
  SMELT_ASSIGN(T* const one, scratch_array<T>(ctx, g.rows * g.v_depth));
  T* seen = nullptr;
  if (ctx.wants(3)) {
    SMELT_ASSIGN(seen, scratch_array<T>(ctx, g.batch * g.q_heads * g.rows * g.keys));
  }
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, y.elements()));
  const T scale =
      static_cast<T>(a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(std::max<int64_t>(g.depth, 1))));
  const int64_t share = g.q_heads / g.kv_heads;
  for (int64_t b = 0; b < g.batch; ++b) {
    SMELT_ASSIGN(const KeySpan span, key_span(ctx, a, g, b));
    for (int64_t h = 0; h < g.q_heads; ++h) {
      SMELT_TRY(ctx.tick());
      const int64_t head = b * g.q_heads + h, kv = b * g.kv_heads + h / share;
      const T* keys = k + kv * g.keys * g.depth;
      for (int64_t j = 0; j < g.keys; ++j)
        for (int64_t d = 0; d < g.depth; ++d) turned[d * g.keys + j] = keys[j * g.depth + d] * scale;
      std::fill_n(scores, g.rows * g.keys, T{});
      gemm_accumulate(g.rows, g.keys, g.depth, q + head * g.rows * g.depth, g.depth, turned, g.keys, scores, g.keys);
      weigh(a, g, mask, added, b, h, span, sinks ? sinks + h : nullptr, scores,
            seen ? seen + head * g.rows * g.keys : nullptr);
      std::fill_n(one, g.rows * g.v_depth, T{});
      gemm_accumulate(g.rows, g.v_depth, g.keys, scores, g.keys, v + kv * g.keys * g.v_depth, g.v_depth, one,
                      g.v_depth);
      for (int64_t i = 0; i < g.rows; ++i)
        std::copy_n(one + i * g.v_depth, g.v_depth,
                    out + (g.flat_q ? (b * g.rows + i) * g.q_heads + h : head * g.rows + i) * g.v_depth);
    }
  }
  store(out, y);
  if (seen) store(seen, ctx.output(3));
  return Ok();
}

}  // namespace

Status infer_Attention(InferContext& ctx) {
  const auto& a = ctx.attrs<AttentionAttrs>();
  const ValueType &q = ctx.input(0), &k = ctx.input(1), &v = ctx.input(2);
  ValueType y = ValueType::tensor(q.dtype), pk = ValueType::tensor(k.dtype), pv = ValueType::tensor(v.dtype), s = y;
  if (q.ranked && k.ranked && v.ranked && (!ctx.has(4) || ctx.input(4).ranked)) {
    SMELT_ASSIGN(const AttentionGeometry g,
                 attention_geometry(a, q.shape, k.shape, v.shape, ctx.has(4) ? &ctx.input(4).shape : nullptr));
    y.ranked = pk.ranked = pv.ranked = s.ranked = true;
    y.shape = g.output();
    pk.shape = Shape{g.batch, g.kv_heads, g.keys, g.depth};
    pv.shape = Shape{g.batch, g.kv_heads, g.keys, g.v_depth};
    s.shape = Shape{g.batch, g.q_heads, g.rows, g.keys};
  }
  ctx.set(0, std::move(y));
  ctx.set(1, std::move(pk));
  ctx.set(2, std::move(pv));
  ctx.set(3, std::move(s));
  return Ok();
}

Status reference_Attention(KernelContext& ctx) {
  const auto& a = ctx.attrs<AttentionAttrs>();
  SMELT_ASSIGN(const AttentionGeometry g,
               attention_geometry(a, ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape(),
                                  ctx.has(4) ? &ctx.input(4).shape() : nullptr));
  return ctx.input(0).dtype() == DType::kF64 ? attend<double>(ctx, a, g) : attend<float>(ctx, a, g);
}

}  // namespace smelt
