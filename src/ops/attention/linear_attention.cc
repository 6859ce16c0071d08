// Linear attention: a state that each token decays, corrects and reads.
#include <cmath>
#include <vector>

#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/core/op.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {

struct LinearAttentionSizes {
  int64_t batch = -1, steps = -1, key = -1, value = -1;
};

Result<LinearAttentionSizes> sizes_of(const LinearAttentionAttrs& a, const Shape& q, const Shape& k, const Shape& v) {
  if (q.rank() != 3 || k.rank() != 3 || v.rank() != 3) return InvalidModel("query, key and value must have rank 3");
  if (a.q_heads < 1 || a.kv_heads < 1 || a.q_heads % a.kv_heads != 0)
    return InvalidModel(a.q_heads, " query heads and ", a.kv_heads, " key heads");
  for (int i = 0; i < 2; ++i)
    if ((q[i] >= 0 && k[i] >= 0 && q[i] != k[i]) || (k[i] >= 0 && v[i] >= 0 && k[i] != v[i]))
      return InvalidModel("query ", q.str(), ", key ", k.str(), " and value ", v.str(), " do not fit together");
  LinearAttentionSizes s{q[0], q[1], -1, -1};
  if (q[2] >= 0) {
    if (q[2] % a.q_heads != 0) return InvalidModel("a query of width ", q[2], " for ", a.q_heads, " heads");
    s.key = q[2] / a.q_heads;
    if (k[2] >= 0 && k[2] != s.key * a.kv_heads) return InvalidModel("a key of width ", k[2]);
  }
  if (v[2] >= 0) {
    if (v[2] % a.kv_heads != 0) return InvalidModel("a value of width ", v[2], " for ", a.kv_heads, " heads");
    s.value = v[2] / a.kv_heads;
  }
  return s;
}

std::vector<double> doubles(KernelContext& ctx, int i) {
  std::vector<double> out;
  if (!ctx.has(i)) return out;
  out.resize(static_cast<size_t>(ctx.input(i).elements()));
  to_doubles(ctx.input(i), out.data());
  return out;
}

}  // namespace

Status infer_LinearAttention(InferContext& ctx) {
  const auto& a = ctx.attrs<LinearAttentionAttrs>();
  const ValueType &q = ctx.input(0), &k = ctx.input(1), &v = ctx.input(2);
  if (!q.ranked || !k.ranked || !v.ranked) {
    ctx.set(0, ValueType::tensor(q.dtype));
    ctx.set(1, ValueType::tensor(ctx.has(3) ? ctx.input(3).dtype : q.dtype));
    return Ok();
  }
  SMELT_ASSIGN(const LinearAttentionSizes s, sizes_of(a, q.shape, k.shape, v.shape));
  ctx.set(0, ValueType::tensor(q.dtype, Shape{s.batch, s.steps, s.value < 0 ? -1 : s.value * a.q_heads}));
  ctx.set(1, ValueType::tensor(ctx.has(3) ? ctx.input(3).dtype : q.dtype, Shape{s.batch, a.kv_heads, s.key, s.value}));
  return Ok();
}

Status reference_LinearAttention(KernelContext& ctx) {
  const auto& a = ctx.attrs<LinearAttentionAttrs>();
  SMELT_ASSIGN(const LinearAttentionSizes s,
               sizes_of(a, ctx.input(0).shape(), ctx.input(1).shape(), ctx.input(2).shape()));
  const auto q = doubles(ctx, 0), k = doubles(ctx, 1), v = doubles(ctx, 2), decay = doubles(ctx, 4),
             beta = doubles(ctx, 5);
  auto state = doubles(ctx, 3);
  const int64_t cell = s.key * s.value, tokens = s.batch * s.steps;
  if (state.empty()) state.assign(static_cast<size_t>(s.batch * a.kv_heads * cell), 0);
  if (static_cast<int64_t>(state.size()) != s.batch * a.kv_heads * cell)
    return InvalidInput("a state of shape ", ctx.input(3).shape().str(), " does not fit");
  const int64_t decay_width = tokens > 0 ? static_cast<int64_t>(decay.size()) / tokens : 0;
  const int64_t beta_width = tokens > 0 ? static_cast<int64_t>(beta.size()) / tokens : 0;
  if (tokens > 0 && a.gated && decay_width != a.kv_heads && decay_width != a.kv_heads * s.key)
    return InvalidInput("a decay of ", decay_width, " entries a token");
  if (tokens > 0 && a.delta && beta_width != a.kv_heads && beta_width != 1)
    return InvalidInput("an update rate of ", beta_width, " entries a token");
  const double scale = a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(s.key));
  const int64_t group = a.q_heads / a.kv_heads;
  std::vector<double> y(static_cast<size_t>(tokens * a.q_heads * s.value), 0), step(static_cast<size_t>(s.value));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t t = 0; t < s.steps; ++t) {
      SMELT_TRY(ctx.tick());
      const int64_t token = b * s.steps + t;
      for (int64_t h = 0; h < a.kv_heads; ++h) {
        double* m = state.data() + (b * a.kv_heads + h) * cell;
        const double* kt = k.data() + (token * a.kv_heads + h) * s.key;
        const double* vt = v.data() + (token * a.kv_heads + h) * s.value;
        if (a.gated)
          for (int64_t i = 0; i < s.key; ++i) {
            const double g = std::exp(decay[token * decay_width + (decay_width == a.kv_heads ? h : h * s.key + i)]);
            for (int64_t j = 0; j < s.value; ++j) m[i * s.value + j] *= g;
          }
        for (int64_t j = 0; j < s.value; ++j) {
          double seen = 0;
          for (int64_t i = 0; a.delta && i < s.key; ++i) seen += m[i * s.value + j] * kt[i];
          step[j] = (vt[j] - seen) * (a.delta ? beta[token * beta_width + (beta_width == 1 ? 0 : h)] : 1);
        }
        for (int64_t i = 0; i < s.key; ++i)
          for (int64_t j = 0; j < s.value; ++j) m[i * s.value + j] += kt[i] * step[j];
        for (int64_t r = 0; r < group; ++r) {
          const int64_t head = token * a.q_heads + h * group + r;
          for (int64_t i = 0; i < s.key; ++i)
            for (int64_t j = 0; j < s.value; ++j)
              y[head * s.value + j] += scale * q[head * s.key + i] * m[i * s.value + j];
        }
      }
    }
  if (ctx.wants(0)) from_doubles(y.data(), ctx.output(0));
  if (ctx.wants(1)) from_doubles(state.data(), ctx.output(1));
  return Ok();
}

}  // namespace smelt
