#include <numeric>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/gather/combine.h"
#include "ops/gather/gather.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {

Status infer_ScatterElements(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType &x = ctx.input(0), &indices = ctx.input(1), &updates = ctx.input(2);
  SMELT_TRY(same_dtype(ctx, 0, 2));
  SMELT_TRY(Combiner::check(x.dtype == DType::kInvalid ? DType::kF32 : x.dtype, ctx.attrs<ScatterAttrs>().reduction));
  if (x.ranked && indices.ranked && updates.ranked) {
    const int rank = x.shape.rank();
    if (rank > 0) SMELT_TRY(axis_of(ctx.attrs<ScatterAttrs>().axis, rank));
    const bool one =
        updates.shape.is_static() && updates.shape.checked_elements().ok() && updates.shape.elements() == 1;
    if (indices.shape.rank() != rank || (updates.shape.rank() != rank && !one))
      return InvalidModel("ranks ", rank, ", ", indices.shape.rank(), " and ", updates.shape.rank(),
                          " of value, indices and updates differ");
    for (int i = 0; i < rank && !one; ++i)
      if (updates.shape[i] >= 0 && indices.shape[i] > updates.shape[i])
        return InvalidModel("updates of shape ", updates.shape.str(), " for indices of shape ", indices.shape.str());
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_ScatterElements(KernelContext& ctx) {
  const auto& a = ctx.attrs<ScatterAttrs>();
  const Tensor &x = ctx.input(0), &updates = ctx.input(2);
  const Shape& index_shape = ctx.input(1).shape();
  const auto indices = ints_of(ctx.input(1));
  Tensor& y = ctx.output(0);
  copy_all(x, y);
  Combiner combiner(y, updates, a.reduction, a.include_self);
  if (indices.empty()) return Ok();
  if (x.rank() == 0) {
    SMELT_TRY(index_of(indices[0], 1));
    combiner.apply(0, 0, 1);
    combiner.finish();
    return Ok();
  }
  SMELT_ASSIGN(const int axis, axis_of(a.axis, x.rank()));
  const bool one = updates.elements() == 1;
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis && index_shape[d] > x.dim(d))
      return InvalidInput("indices of shape ", index_shape.str(), " reach outside the shape ", x.shape().str());
  const Shape strides = x.shape().strides(), from = updates.shape().strides();
  int64_t at = 0;
  Status status;
  for_each_index(index_shape, [&](const int64_t* position) {
    auto index = index_of(indices[static_cast<size_t>(at++)], x.dim(axis));
    if (!index.ok()) {
      status = index.error();
      return false;
    }
    int64_t to = *index * strides[axis], update = 0;
    for (int d = 0; d < x.rank(); ++d) {
      if (d != axis) to += position[d] * strides[d];
      if (!one) update += position[d] * from[d];
    }
    combiner.apply(to, update, 1);
    return true;
  });
  combiner.finish();
  return status;
}

namespace {

/// Shape that the updates of tuples of indices into x have to have.
Result<Shape> updates_shape(const Shape& x, const Shape& indices) {
  if (indices.rank() < 1) return InvalidModel("indices are a scalar");
  const int64_t tuple = indices.back();
  if (tuple > x.rank()) return InvalidModel("tuples of ", tuple, " indices for ", x.rank(), " dimensions");
  if (indices.rank() - 1 + x.rank() - tuple > Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
  Shape out(indices.dims().first(static_cast<size_t>(indices.rank() - 1)));
  for (auto i = static_cast<int>(tuple); i < x.rank(); ++i) out.push_back(x[i]);
  return out;
}

Status check_updates(const Shape& x, const Shape& indices, const Shape& updates) {
  if (indices.rank() > 0 && indices.back() < 0) return Ok();
  SMELT_ASSIGN(const Shape want, updates_shape(x, indices));
  if (want.is_static() && updates.is_static()) {
    // Leading dimensions of 1 that tuples leave out are accepted; what counts is the number of runs.
    SMELT_ASSIGN(const int64_t have, updates.checked_elements());
    SMELT_ASSIGN(const int64_t need, want.checked_elements());
    if (have != need) return InvalidModel("updates of shape ", updates.str(), ", ", want.str(), " expected");
  }
  return Ok();
}

/// Combines slices of updates into y at the positions that tuples of indices name.
Status scatter_tuples(const Tensor& index_tensor, const Tensor& updates, Tensor& y, ScatterAttrs::Reduce reduction,
                      bool include_self, bool negative) {
  SMELT_TRY(check_updates(y.shape(), index_tensor.shape(), updates.shape()));
  const auto indices = ints_of(index_tensor);
  const int64_t tuple = index_tensor.shape().back();
  int64_t tuples = 1;
  for (int i = 0; i + 1 < index_tensor.rank(); ++i) tuples *= index_tensor.dim(i);
  const Shape strides = y.shape().strides();
  const int64_t run = Around(y.shape(), static_cast<int>(tuple) - 1).inner;
  if (updates.elements() == 0) return Ok();
  Combiner combiner(y, updates, reduction, include_self);
  const int64_t* index = indices.data();
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to = 0;
    for (int64_t k = 0; k < tuple; ++k, ++index) {
      SMELT_ASSIGN(const int64_t i, index_of(*index, y.dim(static_cast<int>(k)), negative));
      to += i * strides[static_cast<int>(k)];
    }
    combiner.apply(to, t * run, run);
  }
  combiner.finish();
  return Ok();
}

}  // namespace

Status infer_ScatterND(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType &x = ctx.input(0), &indices = ctx.input(1), &updates = ctx.input(2);
  SMELT_TRY(same_dtype(ctx, 0, 2));
  SMELT_TRY(Combiner::check(x.dtype == DType::kInvalid ? DType::kF32 : x.dtype, ctx.attrs<ScatterAttrs>().reduction));
  if (x.ranked && indices.ranked && updates.ranked) SMELT_TRY(check_updates(x.shape, indices.shape, updates.shape));
  ctx.set(0, x);
  return Ok();
}

Status reference_ScatterND(KernelContext& ctx) {
  const auto& a = ctx.attrs<ScatterAttrs>();
  copy_all(ctx.input(0), ctx.output(0));
  return scatter_tuples(ctx.input(1), ctx.input(2), ctx.output(0), a.reduction, a.include_self, true);
}

Status infer_ScatterNew(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType &indices = ctx.input(0), &updates = ctx.input(1);
  auto dims = ctx.ints(2);
  if (dims) {
    SMELT_ASSIGN(const Shape out, shape_from(*dims));
    if (indices.ranked && updates.ranked) SMELT_TRY(check_updates(out, indices.shape, updates.shape));
    ctx.set(0, like(updates, out));
  } else if (auto n = entries_of(ctx, 2); n && *n <= Shape::kMaxRank) {
    ctx.set(0, like(updates, Shape::of_rank(static_cast<int>(*n), -1)));
  } else {
    ctx.set(0, like_unranked(updates));
  }
  return Combiner::check(updates.dtype == DType::kInvalid ? DType::kF32 : updates.dtype, ScatterAttrs::Reduce::kAdd);
}

Status reference_ScatterNew(KernelContext& ctx) {
  Tensor& y = ctx.output(0);
  {
    CopyTarget target(y);
    fill_run(CopySource(zero_element(y.dtype())), 0, target, 0, y.elements());
  }
  return scatter_tuples(ctx.input(0), ctx.input(1), y, ScatterAttrs::Reduce::kAdd, true, false);
}

Status infer_IndexSelectPut(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType &x = ctx.input(0), &source = ctx.input(2);
  SMELT_TRY(same_dtype(ctx, 0, 2));
  SMELT_TRY(Combiner::check(x.dtype == DType::kInvalid ? DType::kF32 : x.dtype, ctx.attrs<ScatterAttrs>().reduction));
  const auto count = entries_of(ctx, 1);
  if (x.ranked && x.shape.rank() > 0) {
    SMELT_ASSIGN(const int axis, axis_of(ctx.attrs<ScatterAttrs>().axis, x.shape.rank()));
    Shape want = x.shape;
    want[axis] = count.value_or(-1);
    if (want.is_static() && source.ranked && source.shape.is_static()) {
      SMELT_ASSIGN(const int64_t have, source.shape.checked_elements());
      SMELT_ASSIGN(const int64_t need, want.checked_elements());
      if (have != need && have != 1)
        return InvalidModel("the source has shape ", source.shape.str(), ", ", want.str(), " expected");
    }
  }
  ctx.set(0, x);
  return Ok();
}

Status reference_IndexSelectPut(KernelContext& ctx) {
  const auto& a = ctx.attrs<ScatterAttrs>();
  const Tensor &x = ctx.input(0), &source = ctx.input(2);
  auto indices = ints_of(ctx.input(1));
  Tensor& y = ctx.output(0);
  if (source.elements() == 0 || y.elements() == 0) {
    copy_all(x, y);
    return Ok();
  }
  SMELT_ASSIGN(const int axis, axis_of(a.axis, std::max(x.rank(), 1)));
  const int64_t extent = x.rank() == 0 ? 1 : x.dim(axis);
  for (int64_t& index : indices) {
    SMELT_ASSIGN(index, index_of(index, extent));
  }
  copy_all(x, y);
  Combiner combiner(y, source, a.reduction, a.include_self);
  const Around around(x.shape(), axis);
  const auto n = static_cast<int64_t>(indices.size());
  const bool one = source.elements() == 1 && around.outer * n * around.inner != 1;
  for (int64_t o = 0; o < around.outer; ++o)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t to = (o * extent + indices[static_cast<size_t>(i)]) * around.inner;
      if (one) {
        for (int64_t k = 0; k < around.inner; ++k) combiner.apply(to + k, 0, 1);
      } else {
        combiner.apply(to, (o * n + i) * around.inner, around.inner);
      }
    }
  combiner.finish();
  return Ok();
}

Status infer_SparseToDense(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 4));
  const ValueType &indices = ctx.input(0), &values = ctx.input(2);
  SMELT_TRY(same_dtype(ctx, 2, 3));
  if (indices.ranked && indices.shape.rank() > 2) return InvalidModel("indices of rank ", indices.shape.rank());
  if (auto dims = ctx.ints(1)) {
    SMELT_ASSIGN(const Shape out, shape_from(*dims));
    ctx.set(0, like(values, out));
  } else if (auto n = entries_of(ctx, 1); n && *n <= Shape::kMaxRank) {
    ctx.set(0, like(values, Shape::of_rank(static_cast<int>(*n), -1)));
  } else {
    ctx.set(0, like_unranked(values));
  }
  return Ok();
}

Status reference_SparseToDense(KernelContext& ctx) {
  const Tensor &index_tensor = ctx.input(0), &values = ctx.input(2), &fallback = ctx.input(3);
  Tensor& y = ctx.output(0);
  const auto indices = ints_of(index_tensor);
  const int rank = y.rank();
  // A scalar is one index, a vector one index an entry (or one tuple's worth for rank 1), a matrix one tuple a row.
  const int64_t tuple = index_tensor.rank() == 2 ? index_tensor.dim(1) : 1;
  if (tuple != rank) return InvalidInput("tuples of ", tuple, " indices for ", rank, " dimensions");
  const int64_t tuples = static_cast<int64_t>(indices.size()) / std::max<int64_t>(tuple, 1);
  if (fallback.elements() != 1) return InvalidInput("the default value has to be one element");
  const bool one = values.rank() == 0 || (values.elements() == 1 && tuples != 1);
  if (!one && values.elements() < tuples) return InvalidInput(values.elements(), " values for ", tuples, " indices");
  const Shape strides = y.shape().strides();
  const CopySource source(values);
  CopyTarget target(y);
  fill_run(CopySource(fallback), 0, target, 0, y.elements());
  for (int64_t t = 0; t < tuples; ++t) {
    int64_t to = 0;
    for (int k = 0; k < rank; ++k) {
      SMELT_ASSIGN(const int64_t i, index_of(indices[static_cast<size_t>(t * tuple + k)], y.dim(k), false));
      to += i * strides[k];
    }
    copy_run(source, one ? 0 : t, target, to, 1);
  }
  return Ok();
}

}  // namespace smelt
