#include "ops/attention/geometry.h"

#include <algorithm>

#include "base/error.h"
#include "ops/common/index.h"
#include "tensor/numeric.h"

namespace smelt {

double AttentionAttrs::multiply_adds(std::span<const ValueType> inputs, const ValueType& /*output*/) const {
  const Shape& keys = inputs[1].shape;
  return static_cast<double>(inputs[0].shape.elements()) * static_cast<double>(dim_or_one(keys, keys.rank() - 2)) * 2;
}

Shape AttentionGeometry::output() const {
  if (!flat_q) return Shape{batch, q_heads, rows, v_depth};
  return Shape{batch, rows, q_heads < 0 || v_depth < 0 ? -1 : q_heads * v_depth};
}

namespace {

/// Heads and depth of one operand.
Status heads_of(const Shape& s, int64_t heads, const char* name, bool& flat, int64_t& count, int64_t& length,
                int64_t& depth) {
  flat = s.rank() == 3;
  if (s.rank() == 4) {
    count = s[1];
    length = s[2];
    depth = s[3];
    return Ok();
  }
  if (s.rank() != 3) return InvalidModel(name, " of attention has rank ", s.rank(), ", 3 or 4 expected");
  count = heads > 0 ? heads : 1;
  length = s[1];
  depth = s[2] < 0 ? -1 : s[2] / count;
  if (s[2] >= 0 && s[2] % count != 0)
    return InvalidModel(name, " of attention has ", s[2], " columns, a multiple of ", count, " heads expected");
  return Ok();
}

bool differ(int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; }

}  // namespace

Result<AttentionGeometry> attention_geometry(const AttentionAttrs& a, const Shape& q, const Shape& k, const Shape& v,
                                             const Shape* past_k) {
  AttentionGeometry g;
  int64_t k_depth = -1, v_heads = -1, v_length = -1;
  const int64_t kv_heads = a.kv_heads > 0 ? a.kv_heads : a.num_heads;
  SMELT_TRY(heads_of(q, a.num_heads, "q", g.flat_q, g.q_heads, g.rows, g.depth));
  SMELT_TRY(heads_of(k, kv_heads, "k", g.flat_k, g.kv_heads, g.fresh, k_depth));
  SMELT_TRY(heads_of(v, kv_heads, "v", g.flat_v, v_heads, v_length, g.v_depth));
  g.batch = std::max({q[0], k[0], v[0]});
  if (differ(q[0], k[0]) || differ(q[0], v[0]))
    return InvalidInput("q, k and v of attention have batches of ", q[0], ", ", k[0], " and ", v[0]);
  if (differ(g.depth, k_depth)) return InvalidInput("heads of q and k have depths ", g.depth, " and ", k_depth);
  if (differ(g.kv_heads, v_heads) || differ(g.fresh, v_length))
    return InvalidInput("k and v of attention differ in heads or length");
  if (g.kv_heads == 0 || (g.q_heads >= 0 && g.kv_heads > 0 && g.q_heads % g.kv_heads != 0))
    return InvalidModel(g.q_heads, " query heads do not share ", g.kv_heads, " key heads evenly");
  if (past_k) {
    if (past_k->rank() != 4) return InvalidModel("past keys have rank ", past_k->rank(), ", 4 expected");
    if (differ((*past_k)[0], g.batch) || differ((*past_k)[1], g.kv_heads) || differ((*past_k)[3], g.depth))
      return InvalidInput("past keys of shape ", past_k->str(), " do not fit the keys");
    g.past = (*past_k)[2];
  }
  g.keys = g.past < 0 || g.fresh < 0 ? -1 : g.past + g.fresh;
  return g;
}

Result<AttentionMask> attention_mask(const AttentionGeometry& g, const Shape& mask) {
  const int64_t wanted[4] = {g.batch, g.q_heads, g.rows, g.keys};
  if (mask.rank() > 4) return InvalidInput("the mask of attention has rank ", mask.rank());
  AttentionMask m;
  m.keys = g.keys;
  const Shape own = mask.strides();
  for (int i = 1; i <= mask.rank(); ++i) {
    const int64_t d = mask[mask.rank() - i], w = wanted[4 - i];
    if (i == 1 && d != w && d != 1) {
      if (d > w) return InvalidInput("the mask of attention covers ", d, " keys, there are ", w);
      m.keys = d;
    } else if (d != 1 && d != w) {
      return InvalidInput("a mask of shape ", mask.str(), " does not fit [", wanted[0], ",", wanted[1], ",", wanted[2],
                          ",", wanted[3], "]");
    }
    m.strides[4 - i] = d == 1 ? 0 : own[mask.rank() - i];
  }
  return m;
}

Result<KeySpan> key_span(KernelContext& ctx, const AttentionAttrs& a, const AttentionGeometry& g, int64_t b) {
  KeySpan s{g.keys, 0};
  if (ctx.has(6)) {
    const Tensor& t = ctx.input(6);
    if (t.elements() != g.batch && t.elements() != 1)
      return InvalidInput("there are ", t.elements(), " key lengths for a batch of ", g.batch);
    s.valid = get_int(t, t.elements() == 1 ? 0 : b);
    if (s.valid < 0 || s.valid > g.keys) return InvalidInput("key length ", s.valid, " is outside [0, ", g.keys, "]");
  }
  if (a.causal_from_end)
    s.offset = ctx.has(6) ? s.valid - g.rows : ctx.has(4) ? g.past : std::max<int64_t>(s.valid - g.rows, 0);
  return s;
}

VisibleKeys visible_keys(const AttentionAttrs& a, int64_t position, int64_t valid) {
  VisibleKeys v{0, valid};
  if (a.causal) v.end = std::clamp<int64_t>(position + 1, 0, valid);
  if (a.window_right >= 0 && a.window_right < valid)
    v.end = std::clamp<int64_t>(position + a.window_right + 1, 0, v.end);
  if (a.window >= 0 && a.window < valid + position) v.begin = std::clamp<int64_t>(position - a.window, 0, v.end);
  return v;
}

}  // namespace smelt
