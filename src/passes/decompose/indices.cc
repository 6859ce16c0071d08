// Operators around indices and masks that a run computes: comparisons, selections, gathers and scatters.
#include <algorithm>
#include <array>
#include <numeric>

#include "ops/common/broadcast.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "passes/decompose/rules.h"

namespace smelt::decomposition {
namespace {

ValueId int32(Decomposition& c, int64_t v) { return c.scalar(DType::kI32, static_cast<double>(v)); }

/// x, int32 or int64, clamped to [low, high] and cast to int32.
ValueId clamped_int32(Decomposition& c, ValueId x, int64_t low, int64_t high) {
  const auto bound = [&](int64_t v) { return c.scalar(c.dtype(x), static_cast<double>(v)); };
  return c.cast(c.add(Op::kClamp, make_attrs<NoAttrs>(), {x, bound(low), bound(high)}), DType::kI32);
}

/// The int32 constant 0, 1, ..., n - 1 along dimension `axis` of `rank`; the other dimensions are 1.
ValueId iota(Decomposition& c, int64_t n, int rank, int axis) {
  Shape shape = Shape::of_rank(rank, 1);
  shape[axis] = n;
  Tensor t(DType::kI32, shape);
  std::iota(t.data<int32_t>(), t.data<int32_t>() + n, 0);
  return c.constant(std::move(t));
}

ValueId scatter_nd(Decomposition& c, ValueId x, ValueId tuples, ValueId updates, ScatterAttrs::Reduce reduction) {
  ScatterAttrs a;
  a.reduction = reduction;
  return c.add(Op::kScatterND, make_attrs<ScatterAttrs>(a), {x, tuples, updates});
}

}  // namespace

/// Each true element of the mask takes the value at its running count.
std::optional<DecomposedNode> masked_scatter(const NodeSpec& spec) {
  if (!unquantized(spec) || spec.inputs[1].dtype != DType::kBool) return std::nullopt;
  const Shape& y = spec.outputs[0].shape;
  const int64_t n = y.elements();
  Decomposition c(spec);
  const ValueId mask = c.reshape(c.expand(c.input(1), y), {n}), x = c.reshape(c.expand(c.input(0), y), {n});
  const ValueId count = c.add(Op::kCumulative, make_attrs<CumulativeAttrs>(), {c.cast(mask, DType::kI32), c.i64({0})});
  const ValueId taken = c.binary(Binary::kSub, count, int32(c, 1));
  GatherAttrs g;
  g.negative = false;
  const ValueId values = c.reshape(c.input(2), {spec.inputs[2].shape.elements()});
  const ValueId gathered = c.add(Op::kGather, make_attrs<GatherAttrs>(g), {values, c.where(mask, taken, int32(c, 0))});
  return c.finish({c.reshape(c.where(mask, gathered, x), dims_of(y))});
}

/// Values scattered into the default.
std::optional<DecomposedNode> sparse_to_dense(const NodeSpec& spec) {
  const Shape &indices = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const int64_t tuple = indices.rank() == 2 ? indices[1] : 1, tuples = indices.elements() / std::max<int64_t>(tuple, 1);
  if (!unquantized(spec) || !unquantized(spec, {0}, kIndexTypes) || tuple != y.rank() || tuples == 0)
    return std::nullopt;
  const int64_t n = spec.inputs[2].shape.elements();
  const bool one = spec.inputs[2].shape.rank() == 0 || (n == 1 && tuples != 1);
  if (spec.inputs[3].shape.elements() != 1 || (!one && n != tuples)) return std::nullopt;
  Decomposition c(spec);
  ValueId values = c.reshape(c.input(2), {n});
  if (one) values = c.expand(values, Shape{tuples});
  const ValueId dense = c.expand(c.reshape(c.input(3), {1}), Shape{y.elements()});
  // ScatterND would count negative indices from the end: here they are out of range.
  const DType index = spec.inputs[0].dtype;
  const ValueId negative = c.binary(Binary::kLess, c.input(0), c.scalar(index, 0));
  const ValueId places = c.reshape(c.where(negative, c.scalar(index, INT32_MAX), c.input(0)), {tuples, tuple});
  return c.finish({scatter_nd(c, c.reshape(dense, dims_of(y)), places, values, ScatterAttrs::Reduce::kNone)});
}

/// An IndexPut that accumulates is a ScatterND.
std::optional<DecomposedNode> index_put(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const auto tuple = static_cast<int>(spec.inputs.size()) - 2;
  if (!spec.attrs<IndexAttrs>().accumulate || !unquantized(spec) || tuple < 1 || tuple > std::min(4, x.rank()))
    return std::nullopt;
  if (spec.outputs[0].dtype == DType::kBool) return std::nullopt;  // no sum
  Shape place;
  for (size_t i = 2; i < spec.inputs.size(); ++i) {
    if (!unquantized(spec, {i}, kIndexTypes) || spec.inputs[i].dtype != spec.inputs[2].dtype) return std::nullopt;
    const auto joint = broadcast_shapes(place, spec.inputs[i].shape);
    if (!joint.ok()) return std::nullopt;
    place = *joint;
  }
  const int64_t n = place.elements();
  Decomposition c(spec);
  std::vector<ValueId> columns;
  for (size_t i = 2; i < spec.inputs.size(); ++i) columns.push_back(c.reshape(c.expand(c.input(i), place), {n, 1}));
  const ValueId tuples = columns.size() == 1 ? columns[0] : c.add(Op::kConcat, make_attrs<AxisAttrs>(1), columns);
  std::vector<int64_t> slices{n};
  for (int d = tuple; d < x.rank(); ++d) {
    place.push_back(x[d]);
    slices.push_back(x[d]);
  }
  ValueId values = c.input(1);
  if (c.shape(values).elements() != place.elements()) values = c.expand(values, place);
  return c.finish({scatter_nd(c, c.input(0), tuples, c.reshape(values, slices), ScatterAttrs::Reduce::kAdd)});
}

/// Integers for one dimension, or constants for neighbouring ones, are a Gather along it, or along their product.
std::optional<DecomposedNode> index_tensors(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  size_t first = 0, last = 0;
  Shape place;
  bool constant = true;
  for (size_t i = 1; i < spec.inputs.size(); ++i) {
    if (!spec.has(i)) {
      if (first > 0) break;
      continue;
    }
    const auto joint = broadcast_shapes(place, spec.inputs[i].shape);
    if (!unquantized(spec, {i}, kIndexTypes) || !joint.ok()) return std::nullopt;
    constant = constant && spec.constant(i);
    if (first == 0) first = i;
    last = i;
    place = *joint;
  }
  for (size_t i = last + 1; i < spec.inputs.size(); ++i)
    if (spec.has(i)) return std::nullopt;
  if (first == 0 || !unquantized(spec)) return std::nullopt;
  Decomposition c(spec);
  GatherAttrs g;
  g.axis = static_cast<int64_t>(first) - 1;
  if (first == last) return c.finish({c.add(Op::kGather, make_attrs<GatherAttrs>(g), {c.input(0), c.input(first)})});
  if (!constant) return std::nullopt;
  std::vector<int64_t> merged = dims_of(x);
  merged.erase(merged.begin() + static_cast<ptrdiff_t>(first), merged.begin() + static_cast<ptrdiff_t>(last));
  int64_t& extent = merged[first - 1] = 1;
  Tensor flat(DType::kI64, place);
  auto* const at = flat.data<int64_t>();
  std::fill_n(at, place.elements(), 0);
  for (size_t i = first; i <= last; ++i) {
    const int64_t size = x[static_cast<int>(i) - 1];
    const std::vector<int64_t> values = ints_of(*spec.constant(i));
    bool inside = true;
    BroadcastWalk<1>(place, {spec.inputs[i].shape})
        .each_row([&](int64_t to, const std::array<int64_t, 1>& from, int64_t count, const auto& steps) {
          for (int64_t k = 0; k < count && inside; ++k) {
            const auto index = index_of(values[static_cast<size_t>(from[0] + k * steps[0])], size);
            inside = index.ok();
            if (inside) at[to + k] = at[to + k] * size + *index;
          }
        });
    if (!inside) return std::nullopt;  // an error of the run
    extent *= size;
  }
  return c.finish(
      {c.add(Op::kGather, make_attrs<GatherAttrs>(g), {c.reshape(c.input(0), merged), c.constant(std::move(flat))})});
}

/// Lengths that are not constant become indices along time.
std::optional<DecomposedNode> reverse_sequence(const NodeSpec& spec) {
  const auto& a = spec.attrs<DiagonalAttrs>();
  const Shape& x = spec.inputs[0].shape;
  const auto time_axis = normalize_axis(a.axis1, x.rank()), batch_axis = normalize_axis(a.axis2, x.rank());
  if (spec.constant(1) || !unquantized(spec, {1}, kIndexTypes) || !time_axis.ok() || !batch_axis.ok())
    return std::nullopt;
  const int time = *time_axis, batch = *batch_axis;
  const int64_t extent = x[time];
  if (extent > INT32_MAX - 2 || spec.inputs[1].shape.elements() != x[batch]) return std::nullopt;
  Decomposition c(spec);
  Shape along = Shape::of_rank(x.rank(), 1);
  along[batch] = x[batch];
  ValueId n = c.reshape(clamped_int32(c, c.input(1), -1, extent + 1), dims_of(along));
  // A length that is no place in time gives an index out of range.
  const ValueId before = c.binary(Binary::kLess, n, int32(c, 0));
  n = c.where(before, int32(c, extent + 1), n);
  const ValueId t = iota(c, extent, x.rank(), time);
  const ValueId mirrored = c.binary(Binary::kSub, c.binary(Binary::kSub, n, int32(c, 1)), t);
  const ValueId from = c.expand(c.where(c.binary(Binary::kLess, t, n), mirrored, t), x);
  GatherAttrs g;
  g.axis = time;
  g.negative = false;
  return c.finish({c.add_as(Op::kGatherElements, make_attrs<GatherAttrs>(g), {c.input(0), from}, spec.outputs[0])});
}

/// A triangle on a diagonal that is not constant is a selection by comparison.
std::optional<DecomposedNode> triangle(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  if (!unquantized(spec) || spec.constant(1) || !unquantized(spec, {1}, kIndexTypes) || x.rank() < 2 ||
      spec.inputs[1].shape.elements() != 1)
    return std::nullopt;
  const int64_t rows = x[x.rank() - 2], columns = x.back();
  if (rows + columns > INT32_MAX) return std::nullopt;
  Decomposition c(spec);
  const ValueId k = c.reshape(clamped_int32(c, c.input(1), -rows - columns, rows + columns), {1});
  const ValueId diagonal = c.binary(Binary::kAdd, iota(c, rows, 2, 0), k);  // its column in each row
  const bool upper = spec.attrs<TriangleAttrs>().upper;
  const ValueId kept = c.binary(upper ? Binary::kLessEqual : Binary::kGreaterEqual, diagonal, iota(c, columns, 2, 1));
  return c.finish({c.where(kept, c.input(0), c.scalar(spec.inputs[0].dtype, 0))});
}

}  // namespace smelt::decomposition
