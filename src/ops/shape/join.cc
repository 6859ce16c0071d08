#include <cstring>

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "ops/common/index.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

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

/// Copies between one value and its slices along an axis, slice i `extents[i]` long. `joins`: all inputs to output 0;
/// otherwise input 0 to all outputs.
StridedCopies slice_copies(const Shape& whole, int axis, bool joins, const Ints& extents) {
  const Around around(whole, axis);
  const int64_t row = whole[axis] * around.inner;
  StridedCopies all;
  all.copies.reserve(extents.size());
  int64_t offset = 0;
  for (size_t i = 0; i < extents.size(); ++i) {
    const int64_t run = extents[i] * around.inner;
    StridedCopy c;
    (joins ? c.input : c.output) = i;
    (joins ? c.out_offset : c.in_offset) = offset;
    c.dim(around.outer, joins ? run : row, joins ? row : run);
    c.dim(run, 1, 1);
    all.copies.push_back(std::move(c));
    offset += run;
  }
  return all;
}

}  // namespace

Result<StridedCopies> copies_Concat(const NodeSpec& spec) {
  const Shape& y = spec.outputs[0].shape;
  SMELT_ASSIGN(const int axis, axis_of(spec.attrs<AxisAttrs>().axis, y.rank()));
  Ints extents;
  for (const ValueType& x : spec.inputs) extents.push_back(x.shape.elements() == 0 ? 0 : x.shape[axis]);
  return slice_copies(y, axis, true, extents);
}

/// Loops that grow a sequence come here at every iteration, so rows of whole bytes are copied without a loop nest.
Status reference_Concat(KernelContext& ctx) {
  Tensor& y = ctx.output(0);
  const int bits = bit_width(y.dtype());
  const auto same = [&](const Tensor& x) { return x.dtype() == y.dtype() && !x.quant() && x.rank() == y.rank(); };
  bool unquantized = bits >= 8 && !y.quant();
  for (int i = 0; i < ctx.inputs(); ++i) unquantized = unquantized && ctx.has(i) && same(ctx.input(i));
  if (!unquantized) return run_copies(ctx);
  SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, y.rank()));
  const int64_t outer = product(y.shape(), 0, axis), row = product(y.shape(), axis, y.rank()) * (bits / 8);
  int64_t at = 0;
  for (int i = 0; i < ctx.inputs(); ++i) {
    const Tensor& x = ctx.input(i);
    const int64_t run = product(x.shape(), axis, x.rank()) * (bits / 8);
    if (x.elements() == 0) continue;
    if (product(x.shape(), 0, axis) != outer || at + run > row)
      return InvalidInput("input ", i, " of shape ", x.shape().str(), " does not fit ", y.shape().str());
    for (int64_t o = 0; o < outer; ++o)
      std::memcpy(y.data<std::byte>() + o * row + at, x.data<std::byte>() + o * run, static_cast<size_t>(run));
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

Result<StridedCopies> copies_Stack(const NodeSpec& spec) {
  const Shape& y = spec.outputs[0].shape;
  SMELT_ASSIGN(const int axis, axis_of(spec.attrs<AxisAttrs>().axis, y.rank()));
  return slice_copies(y, axis, true, Ints(spec.inputs.size(), 1));
}

Status infer_Unstack(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  ValueType part = like_unranked(x);
  if (x.ranked) {
    SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<AxisAttrs>().axis, x.shape.rank()));
    if (x.shape[axis] >= 0 && x.shape[axis] != ctx.outputs())
      return InvalidModel("dimension ", axis, " of ", x.shape[axis], " is unstacked into ", ctx.outputs(), " outputs");
    Shape out = x.shape;
    out.erase(axis);
    part = like(x, out);
  }
  for (int i = 0; i < ctx.outputs(); ++i) ctx.set(i, part);
  return Ok();
}

namespace {

/// Extents of the outputs of a Split of a dimension of n; empty while they are not known.
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
  if (count != outputs) return InvalidModel(count, " parts for ", outputs, " outputs");
  if (n < 0) return std::vector<int64_t>{};
  const int64_t part = ceil_div(n, count);
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(std::clamp<int64_t>(n - i * part, 0, part));
  return out;
}

}  // namespace

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

Result<StridedCopies> copies_Split(const NodeSpec& spec) {
  const auto& a = spec.attrs<SplitAttrs>();
  const Shape& x = spec.inputs[0].shape;
  SMELT_ASSIGN(const int64_t wanted, constant_int(spec, 2, a.axis));
  SMELT_ASSIGN(const int axis, axis_of(wanted, x.rank()));
  std::optional<Ints> sizes;
  if (spec.has(1)) {
    SMELT_ASSIGN(sizes, constant_ints(spec, 1));
  }
  SMELT_ASSIGN(const Ints extents,
               split_extents(x[axis], std::move(sizes), spec.has(1), a.count, static_cast<int>(spec.outputs.size())));
  for (size_t i = 0; i < spec.outputs.size(); ++i) {
    Shape want = x;
    want[axis] = extents[i];
    if (spec.node.outputs[i] != kNoValue) SMELT_TRY(expect_shape(spec.outputs[i], want));
  }
  return slice_copies(x, axis, false, extents);
}

Result<StridedCopies> copies_Unstack(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  SMELT_ASSIGN(const int axis, axis_of(spec.attrs<AxisAttrs>().axis, x.rank()));
  return slice_copies(x, axis, false, Ints(spec.outputs.size(), 1));
}

}  // namespace smelt
