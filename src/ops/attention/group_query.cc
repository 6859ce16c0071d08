// Grouped-query attention with caches that fill row by row.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "ops/attention/attention.h"
#include "ops/common/operands.h"
#include "ops/core/op.h"
#include "tensor/numeric.h"

namespace smelt {

namespace {

/// Sizes of one call; -1 where not known yet.
struct Sizes {
  int64_t batch = -1, rows = -1, depth = -1, past = 0, capacity = -1;
  /// Rows of a cache that fresh ones have joined, before the oldest leave it.
  int64_t joined(const GroupQueryAttrs& a) const { return a.window_cache ? capacity + rows : capacity; }
};

Result<Sizes> sizes_of(const GroupQueryAttrs& a, const Shape& q, bool packed, const Shape* past, int64_t total) {
  if (q.rank() != 3) return InvalidModel("the query has shape ", q.str(), ", [batch, length, width] expected");
  if (a.num_heads < 1 || a.kv_heads < 1 || a.num_heads % a.kv_heads != 0)
    return InvalidModel(a.num_heads, " query heads and ", a.kv_heads, " key heads");
  const int64_t heads = packed ? a.num_heads + 2 * a.kv_heads : a.num_heads;
  Sizes s{.batch = q[0], .rows = q[1]};
  if (q[2] >= 0) {
    if (q[2] % heads != 0 || q[2] == 0) return InvalidModel("a query of width ", q[2], " for ", heads, " heads");
    s.depth = q[2] / heads;
  }
  if (past) {
    if (past->rank() != 4) return InvalidModel("the past has shape ", past->str(), ", rank 4 expected");
    for (const auto& [have, want] : {std::pair{(*past)[0], s.batch}, {(*past)[1], a.kv_heads}, {(*past)[3], s.depth}})
      if (have >= 0 && want >= 0 && have != want) return InvalidModel("a past of shape ", past->str(), " does not fit");
    s.past = (*past)[2];
  }
  if (a.window_cache) {
    if (s.past >= 0 && (a.window < 1 || s.past < a.window))
      return InvalidModel("a cache of ", s.past, " rows for a window of ", a.window);
    s.capacity = s.past;
  } else if (total >= 0 && s.past >= 0)
    s.capacity = std::max(total, s.past);
  else if (!past)
    s.capacity = s.rows;
  return s;
}

/// Rotates one head in place.
void rotate(const GroupQueryAttrs& a, const float* cos, const float* sin, int64_t half, float* x) {
  for (int64_t i = 0; i < half; ++i) {
    float& p = x[a.interleaved ? 2 * i : i];
    float& q = x[a.interleaved ? 2 * i + 1 : i + half];
    const float u = p, v = q;
    p = u * cos[i] - v * sin[i];
    q = u * sin[i] + v * cos[i];
  }
}

std::vector<float> floats(const Tensor& t) {
  std::vector<float> out(static_cast<size_t>(t.elements()));
  to_floats(t, out.data());
  return out;
}

/// Everything that one run works on.
struct Work {
  Sizes s;
  std::vector<float> q, k, v;                // [batch, rows, heads, depth]
  int64_t joined = 0;                        // rows of a cache
  float *keys = nullptr, *values = nullptr;  // [batch, kv_heads, joined, depth], in scratch memory
  std::vector<float> bias, sinks;
  Shape bias_shape;
  std::vector<float> y;
  int64_t total = 0;          // keys of a row of `scores`
  std::vector<float> scores;  // output 3; empty: not wanted
};

/// Softmax of row scores in place, over [begin, end); zeros elsewhere.
void softmax(float* row, int64_t begin, int64_t end, bool smooth, const float* sink) {
  float top = smooth ? 0.0f : -INFINITY;
  if (sink) top = std::max(top, *sink);
  for (int64_t j = begin; j < end; ++j) top = std::max(top, row[j]);
  double sum = smooth ? std::exp(-static_cast<double>(top)) : 0;
  if (sink) sum += std::exp(static_cast<double>(*sink - top));
  for (int64_t j = begin; j < end; ++j) {
    row[j] = std::exp(row[j] - top);
    sum += static_cast<double>(row[j]);
  }
  for (int64_t j = begin; j < end; ++j) row[j] = static_cast<float>(static_cast<double>(row[j]) / sum);
}

/// Copies the entries [begin, end) of a row to output 3.
void keep_scores(const GroupQueryAttrs& a, Work& w, int64_t b, int64_t h, int64_t i, const std::vector<float>& row,
                 int64_t begin, int64_t end) {
  float* to = w.scores.data() + ((b * a.num_heads + h) * w.s.rows + i) * w.total;
  for (int64_t j = begin; j < std::min(end, w.total); ++j) to[j] = row[static_cast<size_t>(j)];
}

void attend(const GroupQueryAttrs& a, Work& w, int64_t b, const FreshRows& at, std::vector<float>& row) {
  const Sizes& s = w.s;
  const float scale = a.scale != 0 ? static_cast<float>(a.scale) : 1.0f / std::sqrt(static_cast<float>(s.depth));
  for (int64_t h = 0; h < a.num_heads; ++h) {
    const int64_t kv = b * a.kv_heads + h / (a.num_heads / a.kv_heads);
    for (int64_t i = 0; i < s.rows; ++i) {
      const float* q = w.q.data() + ((b * s.rows + i) * a.num_heads + h) * s.depth;
      const int64_t end = std::min(at.row + (a.causal ? i + 1 : s.rows), w.joined);
      const int64_t begin = a.window > 0 ? std::max<int64_t>(0, end - a.window) : 0;
      for (int64_t j = begin; j < end; ++j) {
        const float* k = w.keys + (kv * w.joined + j) * s.depth;
        float sum = 0;
        for (int64_t d = 0; d < s.depth; ++d) sum += q[d] * k[d];
        sum *= scale;
        if (a.softcap > 0) sum = static_cast<float>(a.softcap * std::tanh(static_cast<double>(sum) / a.softcap));
        if (!w.bias.empty()) {
          const Shape& n = w.bias_shape;
          const int64_t row_of_bias = ((n[0] == 1 ? 0 : b) * n[1] + (n[1] == 1 ? 0 : h)) * n[2] + i;
          const int64_t column = at.position - at.row + j;
          if (i < n[2] && column < n[3]) sum += w.bias[static_cast<size_t>(row_of_bias * n[3] + column)];
        }
        row[static_cast<size_t>(j)] = sum;
      }
      if (!w.scores.empty() && a.qk_output == 1) keep_scores(a, w, b, h, i, row, begin, end);
      softmax(row.data(), begin, end, a.smooth_softmax && w.sinks.empty(),
              w.sinks.empty() ? nullptr : &w.sinks[static_cast<size_t>(h)]);
      if (!w.scores.empty() && a.qk_output == 2) keep_scores(a, w, b, h, i, row, begin, end);
      float* y = w.y.data() + ((b * s.rows + i) * a.num_heads + h) * s.depth;
      for (int64_t j = begin; j < end; ++j) {
        const float* v = w.values + (kv * w.joined + j) * s.depth;
        for (int64_t d = 0; d < s.depth; ++d) y[d] += row[static_cast<size_t>(j)] * v[d];
      }
    }
  }
}

void unpack(const GroupQueryAttrs& a, const std::vector<float>& all, Work& w) {
  const int64_t n = w.s.batch * w.s.rows, qw = a.num_heads * w.s.depth, kw = a.kv_heads * w.s.depth, row = qw + 2 * kw;
  for (int64_t i = 0; i < n; ++i) {
    const float* p = all.data() + i * row;
    w.q.insert(w.q.end(), p, p + qw);
    w.k.insert(w.k.end(), p + qw, p + qw + kw);
    w.v.insert(w.v.end(), p + qw + kw, p + row);
  }
}

/// Moves the first `end` rows of the caches of batch entry b, but for the first `dropped`, to where they go out.
void drop_oldest(const GroupQueryAttrs& a, Work& w, int64_t b, int64_t end, int64_t dropped) {
  const int64_t depth = w.s.depth, kept = end - dropped;
  for (int64_t head = b * a.kv_heads; head < (b + 1) * a.kv_heads; ++head)
    for (float* cache : {w.keys, w.values}) {
      float *const from = cache + (head * w.joined + dropped) * depth, *const to = cache + head * w.s.capacity * depth;
      std::copy_n(from, kept * depth, to);
      std::fill(to + kept * depth, to + w.s.capacity * depth, 0.0f);
    }
}

Status load(KernelContext& ctx, const GroupQueryAttrs& a, Work& w) {
  const Sizes& s = w.s;
  if (!ctx.has(1)) {
    unpack(a, floats(ctx.input(0)), w);
  } else {
    w.q = floats(ctx.input(0));
    w.k = floats(ctx.input(1));
    if (!ctx.has(2)) return InvalidInput("a key without a value");
    w.v = floats(ctx.input(2));
  }
  const auto fresh = static_cast<size_t>(s.batch * s.rows * a.kv_heads * s.depth);
  if (w.k.size() != fresh || w.v.size() != fresh)
    return InvalidInput("keys of shape ", ctx.input(ctx.has(1) ? 1 : 0).shape().str(), " do not fit ", a.kv_heads,
                        " heads");
  w.joined = s.joined(a);
  SMELT_ASSIGN(const int64_t cache, Shape({s.batch, a.kv_heads, w.joined, s.depth}).checked_elements());
  for (float** to : {&w.keys, &w.values}) {
    SMELT_ASSIGN(*to, scratch_array<float>(ctx, cache));
    std::fill_n(*to, cache, 0.0f);
  }
  for (int i = 3; i <= 4 && ctx.has(3) && ctx.has(4); ++i) {
    const auto old = floats(ctx.input(i));
    if (static_cast<int64_t>(old.size()) != s.batch * a.kv_heads * s.past * s.depth)
      return InvalidInput("a past of shape ", ctx.input(i).shape().str(), " does not fit");
    float* to = i == 3 ? w.keys : w.values;
    for (int64_t h = 0; h < s.batch * a.kv_heads; ++h)
      std::copy_n(old.begin() + h * s.past * s.depth, s.past * s.depth, to + h * w.joined * s.depth);
  }
  if (ctx.has(10)) {
    if (ctx.input(10).rank() != 4) return InvalidInput("the bias has shape ", ctx.input(10).shape().str());
    w.bias = floats(ctx.input(10));
    w.bias_shape = ctx.input(10).shape();
    if ((w.bias_shape[0] != 1 && w.bias_shape[0] != s.batch) ||
        (w.bias_shape[1] != 1 && w.bias_shape[1] != a.num_heads))
      return InvalidInput("the bias has shape ", w.bias_shape.str());
  }
  if (ctx.has(11)) {
    w.sinks = floats(ctx.input(11));
    if (static_cast<int64_t>(w.sinks.size()) != a.num_heads) return InvalidInput(w.sinks.size(), " sinks");
  }
  return Ok();
}

/// Rotates the fresh queries and keys of batch entry b, whose first row has position `first`.
Status rotate_rows(KernelContext& ctx, const GroupQueryAttrs& a, Work& w, int64_t b, int64_t first) {
  if (!ctx.has(7) || !ctx.has(8)) return InvalidInput("rotary embedding without its tables");
  const auto cos = floats(ctx.input(7)), sin = floats(ctx.input(8));
  const Shape& table = ctx.input(7).shape();
  if (table.rank() != 2 || ctx.input(8).shape() != table || table[1] * 2 > w.s.depth)
    return InvalidInput("a rotary table of shape ", table.str(), " for heads of ", w.s.depth);
  for (int64_t i = 0; i < w.s.rows; ++i) {
    const int64_t at = ctx.has(9) && ctx.input(9).elements() == w.s.batch * w.s.rows
                           ? get_int(ctx.input(9), b * w.s.rows + i)
                           : first + i;
    if (at < 0 || at >= table[0]) return InvalidInput("position ", at, " is not in the rotary table of ", table[0]);
    const float *c = cos.data() + at * table[1], *s = sin.data() + at * table[1];
    for (int64_t h = 0; h < a.num_heads; ++h)
      rotate(a, c, s, table[1], w.q.data() + ((b * w.s.rows + i) * a.num_heads + h) * w.s.depth);
    for (int64_t h = 0; h < a.kv_heads; ++h)
      rotate(a, c, s, table[1], w.k.data() + ((b * w.s.rows + i) * a.kv_heads + h) * w.s.depth);
  }
  return Ok();
}

}  // namespace

int64_t GroupQueryAttrs::rows_kept(int64_t capacity, int64_t positions) const {
  if (!window_cache || positions <= capacity) return positions;
  const int64_t at_a_time = capacity - window + 1;
  return positions - (positions - capacity + at_a_time - 1) / at_a_time * at_a_time;
}

FreshRows GroupQueryAttrs::fresh_rows(const KernelContext& ctx, int64_t b, int64_t rows, int64_t capacity) const {
  const int64_t length = std::clamp<int64_t>(get_int(ctx.input(5), b), -1, INT32_MAX) + 1;
  const bool one_total = ctx.has(6) && ctx.input(6).elements() == 1;
  const bool prompt = !ctx.has(3) || (one_total && get_int(ctx.input(6), 0) == rows);
  const int64_t position = prompt ? 0 : length - rows;
  if (!window_cache) return {length, position, position, 0};
  const int64_t row = rows_kept(capacity, position);
  return {length, position, row, row + length - position - rows_kept(capacity, length)};
}

Status infer_GroupQueryAttention(InferContext& ctx) {
  const auto& a = ctx.attrs<GroupQueryAttrs>();
  const ValueType& q = ctx.input(0);
  if (!q.ranked || (ctx.has(3) && !ctx.input(3).ranked)) {
    for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, ValueType::tensor(q.dtype));
    return Ok();
  }
  const auto total = ctx.ints(6);
  SMELT_ASSIGN(Sizes s, sizes_of(a, q.shape, !ctx.has(1), ctx.has(3) ? &ctx.input(3).shape : nullptr,
                                 total && total->size() == 1 ? (*total)[0] : -1));
  if (ctx.has(6) && !total) s.capacity = -1;
  ctx.set(0, ValueType::tensor(q.dtype, Shape{s.batch, s.rows, s.depth < 0 ? -1 : s.depth * a.num_heads}));
  for (int i = 1; i < 3; ++i) ctx.set(i, ValueType::tensor(q.dtype, Shape{s.batch, a.kv_heads, s.capacity, s.depth}));
  if (ctx.outputs() < 4) return Ok();
  const int64_t keys = total && total->size() == 1 ? (*total)[0] : -1;
  ctx.set(3, ValueType::tensor(q.dtype, Shape{s.batch, a.num_heads, s.rows, keys}));
  return Ok();
}

Status reference_GroupQueryAttention(KernelContext& ctx) {
  const auto& a = ctx.attrs<GroupQueryAttrs>();
  const int64_t total = ctx.has(6) && ctx.input(6).elements() == 1 ? get_int(ctx.input(6), 0) : -1;
  Work w;
  SMELT_ASSIGN(w.s,
               sizes_of(a, ctx.input(0).shape(), !ctx.has(1), ctx.has(3) ? &ctx.input(3).shape() : nullptr, total));
  const Sizes& s = w.s;
  if (s.capacity < 0) return InvalidInput("the length of the cache is not known");
  SMELT_TRY(load(ctx, a, w));
  const Tensor& lengths = ctx.input(5);
  if (lengths.elements() != s.batch) return InvalidInput(lengths.elements(), " lengths for a batch of ", s.batch);
  w.y.assign(static_cast<size_t>(s.batch * s.rows * a.num_heads * s.depth), 0);
  if (ctx.wants(3)) {
    if (total < 0) return InvalidInput("scores of an unknown total length");
    w.total = total;
    w.scores.assign(static_cast<size_t>(s.batch * a.num_heads * s.rows * total), 0);
  }
  std::vector<float> row(static_cast<size_t>(w.joined));
  for (int64_t b = 0; b < s.batch; ++b) {
    SMELT_TRY(ctx.tick());
    const FreshRows at = a.fresh_rows(ctx, b, s.rows, s.capacity);
    const int64_t valid = at.length - at.position;
    const bool ends = !a.window_cache || (valid > 0 && valid <= s.rows);
    if (at.position < 0 || !ends || at.row + s.rows > w.joined)
      return InvalidInput("length ", at.length, " does not fit ", s.rows, " rows and a cache of ", s.capacity);
    if (a.rotary) SMELT_TRY(rotate_rows(ctx, a, w, b, at.position));
    for (int64_t i = 0; i < s.rows; ++i)
      for (int64_t h = 0; h < a.kv_heads; ++h) {
        const int64_t from = ((b * s.rows + i) * a.kv_heads + h) * s.depth;
        const int64_t to = ((b * a.kv_heads + h) * w.joined + at.row + i) * s.depth;
        std::copy_n(w.k.begin() + from, s.depth, w.keys + to);
        std::copy_n(w.v.begin() + from, s.depth, w.values + to);
      }
    attend(a, w, b, at, row);
    if (a.window_cache) drop_oldest(a, w, b, at.row + valid, at.dropped);
  }
  if (ctx.wants(0)) from_floats(w.y.data(), ctx.output(0));
  if (ctx.wants(1)) from_floats(w.keys, ctx.output(1));
  if (ctx.wants(2)) from_floats(w.values, ctx.output(2));
  if (ctx.wants(3)) from_floats(w.scores.data(), ctx.output(3));
  return Ok();
}

}  // namespace smelt
