#include <algorithm>
#include <cstring>

#include "ops/attention/rotary.h"
#include "ops/common/operands.h"
#include "tensor/numeric.h"

namespace smelt {

[[gnu::cold]] Result<RotaryGeometry> rotary_geometry(const RotaryAttrs& a, const Shape& x, const Shape& cos,
                                                     const Shape& sin) {
  if (x.rank() != 3 && x.rank() != 4) return InvalidModel("rotary embedding of rank ", x.rank(), ", 3 or 4 expected");
  const bool flat = x.rank() == 3, together = flat || a.batch_seq_heads;  // rows of a position
  RotaryGeometry g{};
  g.batch = x[0];
  g.length = x[together ? 1 : 2];
  g.heads = !flat ? x[together ? 2 : 1] : a.num_heads > 0 ? a.num_heads : 1;
  if (flat && x[2] % g.heads != 0) return InvalidInput(x[2], " columns do not divide into ", g.heads, " heads");
  g.depth = flat ? x[2] / g.heads : x[3];
  g.head_stride = together ? g.depth : g.length * g.depth;
  g.step = together ? g.heads * g.depth : g.depth;
  g.batch_stride = g.heads * g.length * g.depth;
  g.rotary = a.rotary_dim > 0 ? a.rotary_dim : g.depth;
  if (g.rotary > g.depth || g.rotary % 2 != 0)
    return InvalidModel("a rotary dimension of ", g.rotary, " does not fit heads of ", g.depth);
  const int64_t half = g.rotary / 2, entries = cos.elements();
  if (cos.rank() < 1 || cos.back() != half || sin.elements() != entries)
    return InvalidInput("tables of shape ", cos.str(), ", rows of ", half, " expected");
  g.rows = half ? entries / half : 0;
  int64_t sequences = g.rows == g.length || g.batch == 1 ? 1 : g.batch, positions = g.length;
  if (cos.rank() == 4) {
    sequences = cos[0];
    positions = cos[1] * cos[2];
    const bool fit = (sequences == 1 || sequences == g.batch) && (positions == 1 || positions == g.length);
    if (!fit || (sin.rank() == 4 && sin[0] != sequences))
      return InvalidInput("tables of shape ", cos.str(), ", rows of ", half, " expected");
  }
  g.row_batch = sequences == 1 ? 0 : positions;
  g.row_step = positions == 1 ? 0 : 1;
  return g;
}

Result<int64_t> rotary_row(KernelContext& ctx, const RotaryGeometry& g, int64_t b, int64_t i) {
  int64_t row;
  if (ctx.has(3)) {
    const Tensor& ids = ctx.input(3);
    const int64_t n = ids.elements();
    if (n == g.batch * g.length)
      row = get_int(ids, b * g.length + i);
    else if (n == g.length)
      row = get_int(ids, i);
    else if (n == 1 || n == g.batch)
      row = get_int(ids, n == 1 ? 0 : b) + i;
    else
      return InvalidInput("there are ", n, " position ids for ", g.batch, " sequences of ", g.length);
  } else {
    row = b * g.row_batch + i * g.row_step;
  }
  if (row < 0 || row >= g.rows) return InvalidInput("position ", row, " is outside a table of ", g.rows, " rows");
  return row;
}

Status infer_Rotary(InferContext& ctx) {
  ctx.set(0, ctx.input(0));
  return Ok();
}

Status reference_Rotary(KernelContext& ctx) {
  const auto& a = ctx.attrs<RotaryAttrs>();
  const Tensor &cos_table = ctx.input(1), &sin_table = ctx.input(2);
  SMELT_ASSIGN(const RotaryGeometry g, rotary_geometry(a, ctx.input(0).shape(), cos_table.shape(), sin_table.shape()));
  const int64_t half = g.rotary / 2;
  SMELT_ASSIGN(const float* const cosines, operand<float>(ctx, cos_table));
  SMELT_ASSIGN(const float* const sines, operand<float>(ctx, sin_table));
  SMELT_ASSIGN(float* const x, operand_copy<float>(ctx, ctx.input(0)));
  const auto scale = static_cast<float>(a.scale);
  for (int64_t b = 0; b < g.batch; ++b)
    for (int64_t i = 0; i < g.length && half > 0; ++i) {
      SMELT_ASSIGN(const int64_t row, rotary_row(ctx, g, b, i));
      const float *c = cosines + row * half, *s = sines + row * half;
      for (int64_t h = 0; h < g.heads; ++h) {
        float* v = x + b * g.batch_stride + h * g.head_stride + i * g.step;
        for (int64_t k = 0; k < half; ++k) {
          float& first = v[a.interleaved ? 2 * k : k];
          float& second = v[a.interleaved ? 2 * k + 1 : half + k];
          const float f = first, t = second;
          first = (f * c[k] - t * s[k]) * scale;
          second = (f * s[k] + t * c[k]) * scale;
        }
      }
    }
  store(x, ctx.output(0));
  return Ok();
}

namespace {

Status check_append(const KvAppendAttrs& a, const Shape& cache, const Shape& fresh) {
  if (cache.rank() != fresh.rank() || a.axis < 0 || a.axis >= cache.rank())
    return InvalidModel("a cache of shape ", cache.str(), " can't take ", fresh.str(), " along dimension ", a.axis);
  for (int i = 0; i < cache.rank(); ++i)
    if (i != a.axis && cache[i] >= 0 && fresh[i] >= 0 && cache[i] != fresh[i])
      return InvalidInput("a cache of shape ", cache.str(), " can't take ", fresh.str());
  return Ok();
}

}  // namespace

Status infer_KvAppend(InferContext& ctx) {
  if (ctx.input(0).ranked && ctx.input(1).ranked)
    SMELT_TRY(check_append(ctx.attrs<KvAppendAttrs>(), ctx.input(0).shape, ctx.input(1).shape));
  ctx.set(0, ctx.input(0));
  return Ok();
}

Status reference_KvAppend(KernelContext& ctx) {
  const auto& a = ctx.attrs<KvAppendAttrs>();
  const Tensor &cache = ctx.input(0), &fresh = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_TRY(check_append(a, cache.shape(), fresh.shape()));
  if (cache.dtype() != fresh.dtype() || bit_width(cache.dtype()) < 8)
    return InvalidInput("a cache of ", to_string(cache.dtype()), " can't take ", to_string(fresh.dtype()));
  const int axis = static_cast<int>(a.axis);
  if (ctx.input(2).elements() < 1) return InvalidInput("the start of a cache append is empty");
  const int64_t start = get_int(ctx.input(2), 0), length = fresh.dim(axis), capacity = cache.dim(axis);
  if (start < 0 || start > capacity || length > capacity - start)
    return InvalidInput("entries ", start, " to ", start, " + ", length, " lie outside a cache of ", capacity);
  size_t outer = 1, inner = static_cast<size_t>(bit_width(cache.dtype()) / 8);
  for (int i = 0; i < axis; ++i) outer *= static_cast<size_t>(cache.dim(i));
  for (int i = axis + 1; i < cache.rank(); ++i) inner *= static_cast<size_t>(cache.dim(i));
  if (y.raw() != cache.raw()) std::memcpy(y.raw(), cache.raw(), cache.bytes());
  for (size_t o = 0; o < outer; ++o)
    std::memmove(y.data<char>() + (o * static_cast<size_t>(capacity) + static_cast<size_t>(start)) * inner,
                 fresh.data<char>() + o * static_cast<size_t>(length) * inner, static_cast<size_t>(length) * inner);
  return Ok();
}

}  // namespace smelt
