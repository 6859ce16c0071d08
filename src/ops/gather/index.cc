#include <algorithm>
#include <array>

#include "base/error.h"
#include "ops/common/broadcast.h"
#include "ops/core/op.h"
#include "ops/gather/combine.h"
#include "ops/gather/gather.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// The runs of elements that x[i, j, ...] reads or writes: for each entry of the broadcast index tensors an offset
/// along the indexed dimensions, combined with all offsets along the other dimensions.
struct IndexedRuns {
  Shape shape;                   ///< of the result
  std::vector<int64_t> offsets;  ///< offset in x of each index entry
  std::vector<int64_t> leading;  ///< offsets of the untouched dimensions before the last indexed one
  int64_t run = 1;               ///< elements behind the last indexed dimension
  bool index_dims_first =
      false;  ///< the indexed dimensions are not adjacent: the result begins with the dimensions of the indices

  /// Calls f(offset in x, offset in the result, run).
  template <class F>
  void each(F&& f) const {
    const auto p = static_cast<int64_t>(offsets.size()), l = static_cast<int64_t>(leading.size());
    for (int64_t i = 0; i < l; ++i)
      for (int64_t j = 0; j < p; ++j)
        f(leading[static_cast<size_t>(i)] + offsets[static_cast<size_t>(j)],
          (index_dims_first ? j * l + i : i * p + j) * run, run);
  }
};

/// One indexed dimension of x.
struct DimIndex {
  int dim;
  Shape shape;
  std::vector<int64_t> values;
};

/// Positions where a mask holds, one list a dimension.
void mask_indices(const Tensor& mask, int first_dim, std::vector<DimIndex>& out) {
  std::vector<DimIndex> dims;
  for (int d = 0; d < mask.rank(); ++d) dims.push_back({first_dim + d, Shape{0}, {}});
  int64_t at = 0;
  for_each_index(mask.shape(), [&](const int64_t* index) {
    if (mask.data<uint8_t>()[at++])
      for (int d = 0; d < mask.rank(); ++d) dims[static_cast<size_t>(d)].values.push_back(index[d]);
    return true;
  });
  for (DimIndex& d : dims) {
    d.shape[0] = static_cast<int64_t>(d.values.size());
    out.push_back(std::move(d));
  }
}

Result<std::vector<DimIndex>> dim_indices(const KernelContext& ctx, const Shape& x, int first_input) {
  std::vector<DimIndex> out;
  int dim = 0;
  for (int i = first_input; i < ctx.inputs(); ++i) {
    if (!ctx.has(i)) {
      ++dim;
      continue;
    }
    const Tensor& t = ctx.input(i);
    const int takes = t.dtype() == DType::kBool ? t.rank() : 1;
    if (t.dtype() == DType::kBool && t.rank() == 0) return Unsupported("indexing by a scalar mask");
    if (dim + takes > x.rank()) return InvalidInput("more indices than the ", x.rank(), " dimensions of the value");
    if (t.dtype() == DType::kBool) {
      for (int d = 0; d < takes; ++d)
        if (t.dim(d) != x[dim + d])
          return InvalidInput("a mask of shape ", t.shape().str(), " for a value of shape ", x.str());
      mask_indices(t, dim, out);
    } else {
      if (!is_integer(t.dtype())) return InvalidInput("indices of ", to_string(t.dtype()));
      out.push_back({dim, t.shape(), ints_of(t)});
    }
    dim += takes;
  }
  if (dim > x.rank()) return InvalidInput("more indices than the ", x.rank(), " dimensions of the value");
  return out;
}

Status find_offsets(const std::vector<DimIndex>& dims, const Shape& x, const Shape& joint, IndexedRuns& p) {
  const Shape strides = x.strides();
  SMELT_ASSIGN(const int64_t n, joint.checked_elements());
  int64_t have = 1;
  for (const DimIndex& d : dims) have = std::max(have, static_cast<int64_t>(d.values.size()));
  if (n > (int64_t{1} << 32) && n > have) return LimitReached("indices of shape ", joint.str());
  p.offsets.assign(static_cast<size_t>(n), 0);
  for (const DimIndex& d : dims) {
    Status status;
    BroadcastWalk<1>(joint, {d.shape}).each([&](int64_t to, const std::array<int64_t, 1>& from) {
      if (!status.ok()) return;
      const auto i = index_of(d.values[static_cast<size_t>(from[0])], x[d.dim]);
      if (i.ok())
        p.offsets[static_cast<size_t>(to)] += *i * strides[d.dim];
      else
        status = i.error();
    });
    SMELT_TRY(std::move(status));
  }
  return Ok();
}

Result<IndexedRuns> indexed_runs(const KernelContext& ctx, const Shape& x, int first_input) {
  SMELT_ASSIGN(const auto dims, dim_indices(ctx, x, first_input));
  IndexedRuns p;
  Shape joint;
  for (const DimIndex& d : dims) {
    SMELT_ASSIGN(joint, broadcast_both(joint, d.shape));
  }
  SMELT_TRY(find_offsets(dims, x, joint, p));
  const int first = dims.empty() ? 0 : dims.front().dim, last = dims.empty() ? -1 : dims.back().dim;
  p.index_dims_first = !dims.empty() && last - first + 1 != static_cast<int>(dims.size());
  std::vector<bool> indexed(static_cast<size_t>(x.rank()), false);
  for (const DimIndex& d : dims) indexed[static_cast<size_t>(d.dim)] = true;
  std::vector<int64_t> result;
  if (p.index_dims_first) result.assign(joint.begin(), joint.end());
  Shape kept, kept_strides;
  const Shape strides = x.strides();
  for (int d = 0; d <= last; ++d) {
    if (!p.index_dims_first && d == first) result.insert(result.end(), joint.begin(), joint.end());
    if (indexed[static_cast<size_t>(d)]) continue;
    kept.push_back(x[d]);
    kept_strides.push_back(strides[d]);
    result.push_back(x[d]);
  }
  for (int d = last + 1; d < x.rank(); ++d) {
    p.run *= x[d];
    result.push_back(x[d]);
  }
  if (result.size() > static_cast<size_t>(Shape::kMaxRank)) return Unsupported("a rank of ", result.size());
  p.shape = Shape(std::span<const int64_t>{result});
  SMELT_ASSIGN(const int64_t elements, p.shape.checked_elements());
  if (elements == 0) {
    p.offsets.clear();
    return p;
  }
  for_each_index(kept, [&](const int64_t* index) {
    int64_t offset = 0;
    for (int d = 0; d < kept.rank(); ++d) offset += index[d] * kept_strides[d];
    p.leading.push_back(offset);
    return true;
  });
  return p;
}

}  // namespace

Status infer_IndexTensors(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 1));
  const ValueType& x = ctx.input(0);
  ctx.set(0, like_unranked(x));
  if (!x.ranked) return Ok();
  Shape joint;
  int dim = 0, first = -1, last = -1, count = 0;
  bool known = true;
  std::vector<bool> indexed(static_cast<size_t>(x.shape.rank()), false);
  for (int i = 1; i < ctx.inputs(); ++i) {
    int takes = 1;
    if (ctx.has(i)) {
      const ValueType& t = ctx.input(i);
      if (!t.ranked || t.dtype == DType::kInvalid) return Ok();
      takes = t.dtype == DType::kBool ? t.shape.rank() : 1;
      if (dim + takes > x.shape.rank())
        return InvalidModel("more indices than the ", x.shape.rank(), " dimensions of the value");
      Shape shape = t.shape;
      if (t.dtype == DType::kBool) {
        shape = Shape{-1};
        known = false;
      }
      SMELT_ASSIGN(joint, broadcast_both(joint, shape));
      for (int d = dim; d < dim + takes; ++d) indexed[static_cast<size_t>(d)] = true;
      if (first < 0) first = dim;
      last = dim + takes - 1;
      count += takes;
    }
    dim += takes;
  }
  if (dim > x.shape.rank()) return InvalidModel("more indices than the ", x.shape.rank(), " dimensions of the value");
  if (!known)
    for (int d = 0; d < joint.rank(); ++d) joint[d] = -1;
  const bool index_dims_first = first >= 0 && last - first + 1 != count;
  std::vector<int64_t> dims;
  if (index_dims_first) dims.assign(joint.begin(), joint.end());
  for (int d = 0; d < x.shape.rank(); ++d) {
    if (!index_dims_first && d == first) dims.insert(dims.end(), joint.begin(), joint.end());
    if (!indexed[static_cast<size_t>(d)]) dims.push_back(x.shape[d]);
  }
  if (dims.size() > static_cast<size_t>(Shape::kMaxRank)) return Unsupported("a rank of ", dims.size());
  ctx.set(0, like(x, Shape(std::span<const int64_t>{dims})));
  return Ok();
}

Status reference_IndexTensors(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const IndexedRuns p, indexed_runs(ctx, x.shape(), 1));
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, x.dtype(), p.shape));
  const CopySource source(x);
  CopyTarget target(*y);
  p.each([&](int64_t from, int64_t to, int64_t n) { copy_run(source, from, target, to, n); });
  return Ok();
}

Status infer_IndexPut(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  SMELT_TRY(same_dtype(ctx, 0, 1));
  const ValueType& x = ctx.input(0);
  const auto reduction = ctx.attrs<IndexAttrs>().accumulate ? ScatterAttrs::Reduce::kAdd : ScatterAttrs::Reduce::kNone;
  SMELT_TRY(Combiner::check(x.dtype == DType::kInvalid ? DType::kF32 : x.dtype, reduction));
  ctx.set(0, x);
  return Ok();
}

Status reference_IndexPut(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &values = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const IndexedRuns p, indexed_runs(ctx, x.shape(), 2));
  SMELT_ASSIGN(const Shape joint, broadcast_both(p.shape, values.shape()));
  if (joint.elements() != p.shape.elements())
    return InvalidInput("values of shape ", values.shape().str(), " for indexed elements of shape ", p.shape.str());
  copy_all(x, y);
  Combiner combiner(
      y, values, ctx.attrs<IndexAttrs>().accumulate ? ScatterAttrs::Reduce::kAdd : ScatterAttrs::Reduce::kNone, true);
  if (values.elements() == p.shape.elements()) {
    p.each([&](int64_t to, int64_t from, int64_t n) { combiner.apply(to, from, n); });
    return Ok();
  }
  // Strides of `values`, broadcast to the shape of the indexed elements.
  Shape strides = Shape::of_rank(p.shape.rank(), 0);
  const Shape own = values.shape().strides();
  for (int d = values.rank() - 1, e = p.shape.rank() - 1; d >= 0 && e >= 0; --d, --e)
    if (values.dim(d) != 1) strides[e] = own[d];
  const Shape dest_strides = p.shape.strides();
  p.each([&](int64_t to, int64_t at, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      int64_t from = 0, rest = at + i;
      for (int d = 0; d < dest_strides.rank(); ++d) {
        from += rest / dest_strides[d] * strides[d];
        rest %= dest_strides[d];
      }
      combiner.apply(to + i, from, 1);
    }
  });
  return Ok();
}

}  // namespace smelt
