#include "ops/attention/geometry.h"

#include <algorithm>

#include "base/error.h"

namespace smelt {

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

}  // namespace smelt
