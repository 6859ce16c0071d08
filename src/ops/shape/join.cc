#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/loops.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// PyTorch's cat passes over 1-D values without elements.
bool skipped(const Shape& part, int rank) { return part.rank() == 1 && part[0] == 0 && rank != 1; }

/// Rank that the parts agree on; -1 while none is known.
int joined_rank(const InferContext& ctx) {
  int fallback = -1;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const ValueType& t = ctx.input(i);
    if (!t.ranked) continue;
    if (!skipped(t.shape, -1)) return t.shape.rank();
    fallback = 1;
  }
  return fallback;
}

/// Takes what one part says about the dimensions that all parts share.
Status agree(Shape& out, const Shape& part, int axis, int input) {
  for (int d = 0; d < out.rank(); ++d) {
    if (d == axis || part[d] < 0) continue;
    if (out[d] >= 0 && out[d] != part[d])
      return InvalidModel("input ", input, " has shape ", part.str(), ", ", out.str(),
                          " expected apart from dimension ", axis);
    out[d] = part[d];
  }
  return Ok();
}

Status one_dtype(const InferContext& ctx) {
  for (int i = 1; i < ctx.inputs(); ++i) SMELT_TRY(same_dtype(ctx, 0, i));
  return Ok();
}

}  // namespace

Status infer_Concat(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, ctx.inputs()));
  SMELT_TRY(one_dtype(ctx));
  const int rank = joined_rank(ctx);
  const ValueType& first = ctx.input(0);
  if (rank < 0) {
    ctx.set(0, like_unranked(first));
    return Ok();
  }
  if (rank == 0) return InvalidModel("scalars cannot be concatenated");
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, rank));
  Shape out = Shape::of_rank(rank, -1);
  int64_t extent = 0;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const ValueType& t = ctx.input(i);
    if (!t.ranked) {
      extent = -1;
      continue;
    }
    if (skipped(t.shape, rank)) continue;
    if (t.shape.rank() != rank) return InvalidModel("input ", i, " has rank ", t.shape.rank(), ", ", rank, " expected");
    SMELT_TRY(agree(out, t.shape, axis, i));
    if (extent < 0 || t.shape[axis] < 0)
      extent = -1;
    else if (__builtin_add_overflow(extent, t.shape[axis], &extent))
      return InvalidModel("the result is too large");
  }
  out[axis] = extent;
  ctx.set(0, like(first, out));
  return Ok();
}

namespace {

/// x's stored integers with the parameters of the output. TFLite's rule for 8-bit values: round(q * s + bias), half
/// away from zero; else through real numbers, half to even.
Result<Tensor> requantized(KernelContext& ctx, const Tensor& x, const Tensor& y) {
  SMELT_ASSIGN(Tensor out, Tensor::allocate(y.dtype(), x.shape()));
  out.set_quant(y.quant());
  const Quantization& from = *x.quant();
  const Quantization& to = *y.quant();
  if (from.kind == Quantization::Kind::kPerTensor && to.kind == Quantization::Kind::kPerTensor &&
      to.rounding != Rounding::kFloatHalfEven) {
    const float inverse = 1.0f / to.scale(), scale = from.scale() * inverse;
    const float bias = -static_cast<float>(from.zero_point()) * scale;
    const int64_t lo = int_min(y.dtype()), hi = int_max(y.dtype());
    for (int64_t i = 0; i < x.elements(); ++i) {
      const auto q = static_cast<int64_t>(std::round(static_cast<float>(get_int(x, i)) * scale + bias));
      set_int(out, i, std::clamp(q + to.zero_point(), lo, hi));
    }
    return out;
  }
  auto* real = static_cast<float*>(ctx.scratch(static_cast<size_t>(x.elements()) * sizeof(float)));
  if (!real) return LimitReached("no memory to rescale ", x.elements(), " values");
  dequantize(x, real);
  quantize(real, out);
  return out;
}

}  // namespace

Status reference_Concat(KernelContext& ctx) {
  Tensor& y = ctx.output(0);
  if (y.elements() == 0) return Ok();
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, y.rank()));
  const Around around(y.shape(), axis);
  const int64_t row = y.dim(axis) * around.inner;
  MoveTarget target(y);
  int64_t at = 0;
  for (int i = 0; i < ctx.inputs(); ++i) {
    Tensor x = ctx.input(i);
    if (x.dtype() != y.dtype()) return InvalidInput("input ", i, " is ", to_string(x.dtype()));
    if (x.elements() == 0) continue;
    if (x.quant() && y.quant() && is_integer(x.dtype()) && !same_quant_params(x.quant(), y.quant()) &&
        x.quant()->kind == Quantization::Kind::kPerTensor) {
      SMELT_ASSIGN(x, requantized(ctx, x, y));
    }
    const int64_t run = x.dim(axis) * around.inner;
    const MoveSource source(x);
    for (int64_t o = 0; o < around.outer; ++o) copy_run(source, o * run, target, o * row + at, run);
    at += run;
  }
  return Ok();
}

Status infer_Stack(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, ctx.inputs()));
  SMELT_TRY(one_dtype(ctx));
  const ValueType* ranked = nullptr;
  for (int i = 0; i < ctx.inputs() && !ranked; ++i)
    if (ctx.input(i).ranked) ranked = &ctx.input(i);
  if (!ranked) {
    ctx.set(0, like_unranked(ctx.input(0)));
    return Ok();
  }
  const int rank = ranked->shape.rank();
  if (rank == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, rank + 1));
  Shape out = Shape::of_rank(rank, -1);
  for (int i = 0; i < ctx.inputs(); ++i) {
    const ValueType& t = ctx.input(i);
    if (!t.ranked) continue;
    if (t.shape.rank() != rank) return InvalidModel("input ", i, " has rank ", t.shape.rank(), ", ", rank, " expected");
    SMELT_TRY(agree(out, t.shape, -1, i));
  }
  out.insert(axis, ctx.inputs());
  ctx.set(0, like(ctx.input(0), out));
  return Ok();
}

Status reference_Stack(KernelContext& ctx) {
  Tensor& y = ctx.output(0);
  if (y.elements() == 0) return Ok();
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, y.rank()));
  const Around around(y.shape(), axis);
  MoveTarget target(y);
  for (int i = 0; i < ctx.inputs(); ++i) {
    const MoveSource source(ctx.input(i));
    for (int64_t o = 0; o < around.outer; ++o)
      copy_run(source, o * around.inner, target, (o * ctx.inputs() + i) * around.inner, around.inner);
  }
  return Ok();
}

Status infer_Unstack(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  ValueType piece = like_unranked(x);
  if (x.ranked) {
    SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, x.shape.rank()));
    if (x.shape[axis] >= 0 && x.shape[axis] != ctx.outputs())
      return InvalidModel("dimension ", axis, " of ", x.shape[axis], " is unstacked into ", ctx.outputs(), " outputs");
    Shape out = x.shape;
    out.erase(axis);
    piece = like(x, out);
  }
  for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, piece);
  return Ok();
}

namespace {

/// Writes pieces of x along axis to the outputs, piece i `extents[i]` long.
void scatter_pieces(KernelContext& ctx, int axis, const std::vector<int64_t>& extents) {
  const Tensor& x = ctx.input(0);
  const Around around(x.shape(), axis);
  const int64_t row = x.dim(axis) * around.inner;
  const MoveSource source(x);
  int64_t at = 0;
  for (int i = 0; i < ctx.outputs(); ++i) {
    const int64_t run = extents[static_cast<size_t>(i)] * around.inner;
    if (ctx.wants(i) && ctx.output(i).elements() > 0) {
      MoveTarget target(ctx.output(i));
      for (int64_t o = 0; o < around.outer; ++o) copy_run(source, o * row + at, target, o * run, run);
    }
    at += run;
  }
}

}  // namespace

Result<std::vector<int64_t>> split_extents(int64_t n, std::optional<std::vector<int64_t>> sizes, bool has_sizes,
                                           int64_t count, int outputs) {
  if (has_sizes) {
    if (!sizes) return std::vector<int64_t>{};
    if (static_cast<int>(sizes->size()) != outputs)
      return InvalidModel(sizes->size(), " sizes for ", outputs, " outputs");
    int64_t sum = 0;
    int64_t* rest = nullptr;
    for (int64_t& s : *sizes) {
      if (s == -1 && !rest)
        rest = &s;
      else if (s < 0 || __builtin_add_overflow(sum, s, &sum))
        return InvalidModel("a piece of ", s);
    }
    if (n >= 0 && (sum > n || (!rest && sum != n)))
      return InvalidModel("pieces of ", sum, " together for a dimension of ", n);
    if (rest && n >= 0) *rest = n - sum;
    return std::move(*sizes);
  }
  if (count <= 0) count = outputs;
  if (count != outputs) return InvalidModel(count, " pieces for ", outputs, " outputs");
  if (n < 0) return std::vector<int64_t>{};
  const int64_t piece = ceil_div(n, count);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(std::clamp<int64_t>(n - i * piece, 0, piece));
  return out;
}

Status infer_Split(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  const auto& a = ctx.attrs<SplitAttrs>();
  if (!x.ranked) {
    for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, like_unranked(x));
    return Ok();
  }
  int64_t wanted = a.axis;
  if (ctx.has(2)) {
    const auto given = ctx.ints(2);
    if (given && given->size() != 1) return InvalidModel("the axis has ", given->size(), " elements");
    if (!given) {
      for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, like(x, Shape::of_rank(x.shape.rank(), -1)));
      return Ok();
    }
    wanted = given->front();
  }
  SMELT_ASSIGN(const int axis, axis_of(wanted, x.shape.rank()));
  SMELT_ASSIGN(const auto extents, split_extents(x.shape[axis], ctx.ints(1), ctx.has(1), a.count, ctx.outputs()));
  for (int i = 0; i < ctx.outputs(); ++i) {
    Shape out = x.shape;
    out[axis] = extents.empty() ? -1 : extents[static_cast<size_t>(i)];
    ctx.set(i, like(x, out));
  }
  return Ok();
}

Status reference_Split(KernelContext& ctx) {
  const auto& a = ctx.attrs<SplitAttrs>();
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const int axis, axis_of(ctx.has(2) ? get_int(ctx.input(2), 0) : a.axis, x.rank()));
  std::optional<std::vector<int64_t>> sizes;
  if (ctx.has(1)) sizes = ints_of(ctx.input(1));
  const bool has_sizes = sizes.has_value();
  SMELT_ASSIGN(const auto extents, split_extents(x.dim(axis), std::move(sizes), has_sizes, a.count, ctx.outputs()));
  for (int i = 0; i < ctx.outputs(); ++i) {
    if (!ctx.wants(i)) continue;
    Shape want = x.shape();
    want[axis] = extents[static_cast<size_t>(i)];
    SMELT_TRY(expect_shape(ctx.output(i), want));
  }
  scatter_pieces(ctx, axis, extents);
  return Ok();
}

Status reference_Unstack(KernelContext& ctx) {
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, ctx.input(0).rank()));
  scatter_pieces(ctx, axis, std::vector<int64_t>(static_cast<size_t>(ctx.outputs()), 1));
  return Ok();
}

}  // namespace smelt
