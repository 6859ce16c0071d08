#include "ops/gather/gather.h"

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"

namespace smelt {
namespace {

struct GatherAxes {
  int axis = 0, batch = 0;
};

Result<GatherAxes> gather_axes(const GatherAttrs& a, int x_rank, int index_rank) {
  GatherAxes g;
  SMELT_ASSIGN(g.axis, axis_of(a.axis, x_rank));
  const int64_t batch = a.batch_dims < 0 ? a.batch_dims + index_rank : a.batch_dims;
  if (batch < 0 || batch > index_rank || batch > g.axis)
    return InvalidModel("batch_dims ", a.batch_dims, " for axis ", g.axis, " and indices of rank ", index_rank);
  g.batch = static_cast<int>(batch);
  return g;
}

Status check_batch(const Shape& x, const Shape& indices, int batch) {
  for (int i = 0; i < batch; ++i)
    if (x[i] >= 0 && indices[i] >= 0 && x[i] != indices[i])
      return InvalidModel("shapes ", x.str(), " and ", indices.str(), " differ in batch dimension ", i);
  return Ok();
}

Status set_checked(InferContext& ctx, const ValueType& x, const std::vector<int64_t>& dims, int quant_axis = -1) {
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank)) return Unsupported("a rank of ", dims.size());
  ctx.set(0, like(x, Shape(std::span<const int64_t>{dims}), quant_axis));
  return Ok();
}

}  // namespace

Status infer_Gather(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType &x = ctx.input(0), &indices = ctx.input(1);
  if (is_float(indices.dtype)) return InvalidModel("indices are ", to_string(indices.dtype), ", integers expected");
  if (!x.ranked || !indices.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  SMELT_ASSIGN(const GatherAxes g, gather_axes(ctx.attrs<GatherAttrs>(), x.shape.rank(), indices.shape.rank()));
  SMELT_TRY(check_batch(x.shape, indices.shape, g.batch));
  std::vector<int64_t> dims(x.shape.begin(), x.shape.begin() + g.axis);
  dims.insert(dims.end(), indices.shape.begin() + g.batch, indices.shape.end());
  dims.insert(dims.end(), x.shape.begin() + g.axis + 1, x.shape.end());
  int quant_axis = -1;
  if (x.quant && x.quant->axis > g.axis) quant_axis = x.quant->axis + indices.shape.rank() - g.batch - 1;
  return set_checked(ctx, x, dims, quant_axis);
}

Status reference_Gather(KernelContext& ctx) {
  const auto& a = ctx.attrs<GatherAttrs>();
  const Tensor& x = ctx.input(0);
  if (ctx.output(0).elements() == 0) return Ok();
  const auto indices = ints_of(ctx.input(1));
  SMELT_ASSIGN(const GatherAxes g, gather_axes(a, x.rank(), ctx.input(1).rank()));
  int64_t batches = 1, outer = 1;
  for (int i = 0; i < g.batch; ++i) batches *= x.dim(i);
  for (int i = g.batch; i < g.axis; ++i) outer *= x.dim(i);
  const int64_t extent = x.dim(g.axis), run = Around(x.shape(), g.axis).inner;
  const int64_t count = batches == 0 ? 0 : static_cast<int64_t>(indices.size()) / batches;
  const CopySource source(x);
  CopyTarget target(ctx.output(0));
  int64_t at = 0;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < count; ++i, at += run) {
        SMELT_ASSIGN(const int64_t index, index_of(indices[static_cast<size_t>(b * count + i)], extent, a.negative));
        copy_run(source, ((b * outer + o) * extent + index) * run, target, at, run);
      }
  return Ok();
}

Result<StridedCopies> copies_Gather(const NodeSpec& spec) {
  const Shape &x = spec.inputs[0].shape, &indices = spec.inputs[1].shape;
  SMELT_ASSIGN(const GatherAxes g, gather_axes(spec.attrs<GatherAttrs>(), x.rank(), indices.rank()));
  if (g.batch > 0) return Unsupported("a gather in batches");
  SMELT_ASSIGN(Ints table, constant_ints(spec, 1));
  for (int64_t& i : table) {
    SMELT_ASSIGN(i, index_of(i, x[g.axis], spec.attrs<GatherAttrs>().negative));
  }
  const Around around(x, g.axis);
  const Shape from{around.outer, x[g.axis], around.inner}, to{around.outer, indices.elements(), around.inner};
  StridedCopies all;
  add_separable(all, from, to, {{neighbours(0, 0, from[0])}, dim_runs(table), {neighbours(0, 0, from[2])}});
  return all;
}

Status infer_GatherElements(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType &x = ctx.input(0), &indices = ctx.input(1);
  if (!indices.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (x.ranked) {
    const int rank = x.shape.rank();
    if (indices.shape.rank() != rank)
      return InvalidModel("indices have rank ", indices.shape.rank(), ", the value has rank ", rank);
    if (rank > 0) {
      SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<GatherAttrs>().axis, rank));
      for (int i = 0; i < rank; ++i)
        if (i != axis && x.shape[i] >= 0 && indices.shape[i] > x.shape[i])
          return InvalidModel("indices of shape ", indices.shape.str(), " reach outside the shape ", x.shape.str());
    }
  }
  ctx.set(0, like(x, indices.shape));
  return Ok();
}

Status reference_GatherElements(KernelContext& ctx) {
  const auto& a = ctx.attrs<GatherAttrs>();
  const Tensor& x = ctx.input(0);
  const auto indices = ints_of(ctx.input(1));
  const CopySource source(x);
  CopyTarget target(ctx.output(0));
  if (x.rank() == 0) {
    SMELT_TRY(index_of(indices[0], 1, a.negative));
    copy_run(source, 0, target, 0, 1);
    return Ok();
  }
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  const Shape strides = x.shape().strides();
  int64_t at = 0;
  Status status;
  for_each_index(ctx.input(1).shape(), [&](const int64_t* position) {
    auto index = index_of(indices[static_cast<size_t>(at)], x.dim(axis), a.negative);
    if (!index.ok()) {
      status = index.error();
      return false;
    }
    int64_t from = *index * strides[axis];
    for (int d = 0; d < x.rank(); ++d)
      if (d != axis) from += position[d] * strides[d];
    copy_run(source, from, target, at++, 1);
    return true;
  });
  return status;
}

Status infer_GatherND(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType &x = ctx.input(0), &indices = ctx.input(1);
  if (!x.ranked || !indices.ranked || (indices.shape.rank() > 0 && indices.shape.back() < 0)) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  const int64_t batch = ctx.attrs<GatherAttrs>().batch_dims;
  const int rank = x.shape.rank(), index_rank = indices.shape.rank();
  if (index_rank < 1) return InvalidModel("indices are a scalar");
  if (batch < 0 || batch >= index_rank || batch > rank) return InvalidModel("batch_dims ", batch);
  const int64_t tuple = indices.shape.back();
  if (tuple > rank - batch) return InvalidModel("tuples of ", tuple, " indices for ", rank - batch, " dimensions");
  SMELT_TRY(check_batch(x.shape, indices.shape, static_cast<int>(batch)));
  std::vector<int64_t> dims(indices.shape.begin(), indices.shape.end() - 1);
  dims.insert(dims.end(), x.shape.begin() + batch + tuple, x.shape.end());
  return set_checked(ctx, x, dims);
}

Status reference_GatherND(KernelContext& ctx) {
  const auto& a = ctx.attrs<GatherAttrs>();
  const Tensor& x = ctx.input(0);
  if (ctx.output(0).elements() == 0) return Ok();
  const Shape& index_shape = ctx.input(1).shape();
  const auto indices = ints_of(ctx.input(1));
  const auto batch = static_cast<int>(a.batch_dims);
  const int64_t tuple = index_shape.back();
  const Shape strides = x.shape().strides();
  int64_t batches = 1, tuples = 1;
  for (int i = 0; i < batch; ++i) batches *= index_shape[i];
  for (int i = batch; i + 1 < index_shape.rank(); ++i) tuples *= index_shape[i];
  const int first = batch + static_cast<int>(tuple);
  const int64_t run = Around(x.shape(), first - 1).inner;
  const int64_t batch_stride = batch == 0 ? 0 : strides[batch - 1];
  const CopySource source(x);
  CopyTarget target(ctx.output(0));
  const int64_t* index = indices.data();
  int64_t at = 0;
  for (int64_t b = 0; b < batches; ++b)
    for (int64_t t = 0; t < tuples; ++t, at += run) {
      int64_t from = b * batch_stride;
      for (int64_t k = 0; k < tuple; ++k, ++index) {
        const int d = batch + static_cast<int>(k);
        SMELT_ASSIGN(const int64_t i, index_of(*index, x.dim(d), a.negative));
        from += i * strides[d];
      }
      copy_run(source, from, target, at, run);
    }
  return Ok();
}

}  // namespace smelt
