#include "base/checked.h"
#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

namespace smelt {
namespace {

/// Where dimension `axis` of x went: the dimension of y with the same extent and as many elements before it; -1: none.
int follow_axis(const Shape& x, const Shape& y, int axis) {
  if (!x.is_static() || !y.is_static() || axis >= x.rank()) return -1;
  int64_t before = 1;
  for (int i = 0; i < axis; ++i) before *= x[i];
  int64_t seen = 1;
  for (int i = 0; i < y.rank(); ++i) {
    if (seen == before && y[i] == x[axis]) return i;
    seen *= y[i];
  }
  return -1;
}

ValueType reshaped_type(const ValueType& x, const Shape& shape) {
  int axis = -1;
  if (x.ranked && x.quant && x.quant->kind == Quantization::Kind::kPerAxis)
    axis = follow_axis(x.shape, shape, x.quant->axis);
  return like(x, shape, axis);
}

/// The extent that -1 stands for; -1 while it can't be told. `target` holds kCopied where x's dimension is kept.
Result<int64_t> inferred_extent(const ValueType& x, const Shape& target, const std::vector<bool>& copied) {
  if (!x.ranked) return int64_t{-1};
  int64_t have = 1, rest = 1;
  for (int i = 0; i < x.shape.rank(); ++i) {
    if (i < target.rank() && copied[static_cast<size_t>(i)]) continue;
    if (x.shape[i] < 0) return int64_t{-1};
    auto p = checked_mul(have, x.shape[i]);
    if (!p) return InvalidModel("shape ", x.shape.str(), " has too many elements");
    have = *p;
  }
  for (int i = 0; i < target.rank(); ++i) {
    if (copied[static_cast<size_t>(i)] || target[i] < 0) continue;
    auto p = checked_mul(rest, target[i]);
    if (!p) return InvalidModel("shape ", target.str(), " has too many elements");
    rest = *p;
  }
  if (rest == 0) {
    if (have != 0) return InvalidModel("shape ", x.shape.str(), " cannot be reshaped to ", target.str());
    return int64_t{0};
  }
  if (have % rest != 0) return InvalidModel("shape ", x.shape.str(), " cannot be reshaped to ", target.str());
  return have / rest;
}

Result<Shape> reshape_target(const ValueType& x, const std::vector<int64_t>& dims, bool allow_zero) {
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank))
    return Unsupported("a shape of ", dims.size(), " dimensions; at most ", Shape::kMaxRank, " are supported");
  Shape out(std::span<const int64_t>{dims});
  std::vector<bool> copied(dims.size(), false);
  int unknown = -1;
  for (int i = 0; i < out.rank(); ++i) {
    if (out[i] == -1) {
      if (unknown >= 0) return InvalidModel("the new shape has more than one -1");
      unknown = i;
    } else if (out[i] < 0) {
      return InvalidModel("the new shape has the dimension ", out[i]);
    } else if (out[i] == 0 && !allow_zero) {
      copied[static_cast<size_t>(i)] = true;
      if (x.ranked && i >= x.shape.rank())
        return InvalidModel("the new shape copies dimension ", i, " of a value of rank ", x.shape.rank());
      out[i] = x.ranked ? x.shape[i] : -1;
    }
  }
  if (unknown >= 0) {
    SMELT_ASSIGN(out[unknown], inferred_extent(x, out, copied));
    return out;
  }
  if (out.is_static() && x.ranked && x.shape.is_static()) {
    SMELT_ASSIGN(const int64_t have, x.shape.checked_elements());
    SMELT_ASSIGN(const int64_t want, out.checked_elements());
    if (have != want) return InvalidModel("shape ", x.shape.str(), " cannot be reshaped to ", out.str());
  }
  return out;
}

Status copy_through(KernelContext& ctx) {
  if (ctx.input(0).elements() != ctx.output(0).elements())
    return InvalidInput("shape ", ctx.input(0).shape().str(), " cannot be reshaped to ", ctx.output(0).shape().str());
  copy_all(ctx.input(0), ctx.output(0));
  return Ok();
}

}  // namespace

Status infer_Reshape(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  if (auto dims = ctx.ints(1)) {
    SMELT_ASSIGN(const Shape shape, reshape_target(x, *dims, ctx.attrs<ReshapeAttrs>().allow_zero));
    ctx.set(0, reshaped_type(x, shape));
  } else if (auto rank = entries_of(ctx, 1); rank && *rank <= Shape::kMaxRank) {
    ctx.set(0, like(x, Shape::of_rank(static_cast<int>(*rank), -1)));
  } else {
    ctx.set(0, like_unranked(x));
  }
  return Ok();
}

Status infer_Squeeze(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  const Shape& in = x.shape;
  std::vector<bool> drop(static_cast<size_t>(in.rank()), false);
  if (ctx.has(1)) {
    auto axes = ctx.ints(1);
    if (!axes) {
      // Several may be one axis, and a scalar would be a known shape of what may be no scalar.
      const bool one = entries_of(ctx, 1) == 1 && in.rank() > 1;
      ctx.set(0, one ? like(x, Shape::of_rank(in.rank() - 1, -1)) : like_unranked(x));
      return Ok();
    }
    for (int64_t a : *axes) {
      SMELT_ASSIGN(const int axis, axis_of(a, in.rank()));
      if (in[axis] > 1 || in[axis] == 0)
        return InvalidModel("dimension ", axis, " of shape ", in.str(), " cannot be squeezed");
      drop[static_cast<size_t>(axis)] = true;
    }
  } else {
    if (!in.is_static()) {
      ctx.set(0, like_unranked(x));
      return Ok();
    }
    for (int i = 0; i < in.rank(); ++i) drop[static_cast<size_t>(i)] = in[i] == 1;
  }
  Shape out;
  int moved = -1;
  for (int i = 0; i < in.rank(); ++i) {
    if (drop[static_cast<size_t>(i)]) continue;
    if (x.quant && i == x.quant->axis) moved = out.rank();
    out.push_back(in[i]);
  }
  ctx.set(0, like(x, out, moved));
  return Ok();
}

Status infer_Unsqueeze(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  auto axes = ctx.ints(1);
  const auto count = axes ? std::optional<int64_t>(static_cast<int64_t>(axes->size())) : entries_of(ctx, 1);
  if (!x.ranked || !count) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (*count > Shape::kMaxRank - x.shape.rank())
    return Unsupported("a rank of ", *count + x.shape.rank(), "; at most ", Shape::kMaxRank, " is supported");
  const int rank = x.shape.rank() + static_cast<int>(*count);
  if (!axes) {
    ctx.set(0, like(x, Shape::of_rank(rank, -1)));
    return Ok();
  }
  SMELT_ASSIGN(const auto inserted, axes_of(*axes, rank));
  Shape out = Shape::of_rank(rank, -2);
  for (int a : inserted) out[a] = 1;
  int moved = -1;
  for (int i = 0, from = 0; i < rank; ++i) {
    if (out[i] == 1) continue;
    if (x.quant && from == x.quant->axis) moved = i;
    out[i] = x.shape[from++];
  }
  ctx.set(0, like(x, out, moved));
  return Ok();
}

Status infer_Flatten(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  Shape out{-1, -1};
  if (x.ranked) {
    int64_t axis = ctx.attrs<AxisAttrs>().axis;
    const int rank = x.shape.rank();
    if (axis < -rank || axis > rank) return InvalidModel("axis ", axis, " is out of range for rank ", rank);
    if (axis < 0) axis += rank;
    for (int side = 0; side < 2; ++side) {
      const std::span<const int64_t> dims = x.shape.dims();
      const Shape part(side == 0 ? dims.first(static_cast<size_t>(axis)) : dims.subspan(static_cast<size_t>(axis)));
      if (!part.is_static()) continue;
      SMELT_ASSIGN(out[side], part.checked_elements());
    }
  }
  ctx.set(0, reshaped_type(x, out));
  return Ok();
}

Status reference_Reshape(KernelContext& ctx) { return copy_through(ctx); }
Status reference_Squeeze(KernelContext& ctx) { return copy_through(ctx); }
Status reference_Unsqueeze(KernelContext& ctx) { return copy_through(ctx); }
Status reference_Flatten(KernelContext& ctx) { return copy_through(ctx); }

}  // namespace smelt
