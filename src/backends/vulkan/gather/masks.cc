// Elements moved by masks, lengths and indices that are computed, composed of kernels that compare, count and pick.
#include <numeric>

#include "backends/vulkan/decompose/composed.h"
#include "ops/common/broadcast.h"
#include "ops/common/index.h"
#include "ops/gather/gather.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::vulkan {
namespace {

bool is_index(DType dtype) { return dtype == DType::kI32 || dtype == DType::kI64; }

/// A whole number of any size as int32, those beyond [low, high] as these.
ValueId bounded(Composition& c, ValueId x, int64_t low, int64_t high) {
  const DType dtype = c.dtype(x);
  if (!is_index(dtype)) return kNoValue;
  const auto bound = [&](int64_t v) { return c.scalar(dtype, static_cast<double>(v)); };
  return c.cast(c.add(Op::kClamp, make_attrs<NoAttrs>(), {x, bound(low), bound(high)}), DType::kI32);
}

/// 0, 1, ... along one dimension of `rank`.
ValueId counted(Composition& c, int64_t n, int rank, int axis) {
  Shape shape = Shape::of_rank(rank, 1);
  shape[axis] = n;
  Tensor t(DType::kI32, shape);
  std::iota(t.data<int32_t>(), t.data<int32_t>() + n, 0);
  return c.constant(std::move(t));
}

std::vector<int64_t> dims_of(const Shape& s) { return {s.begin(), s.end()}; }

/// x where no index is negative: such ones become too large ones.
ValueId without_negative(Composition& c, ValueId x) {
  const DType dtype = c.dtype(x);
  return c.where(c.binary(Binary::kLess, x, c.scalar(dtype, 0)), c.scalar(dtype, INT32_MAX), x);
}

ValueId scatter(Composition& c, ValueId x, ValueId tuples, ValueId updates, ScatterAttrs::Reduce reduction) {
  ScatterAttrs a;
  a.reduction = reduction;
  return c.add(Op::kScatterND, make_attrs<ScatterAttrs>(a), {x, tuples, updates});
}

bool plain(const KernelSpec& spec) {
  for (const ValueType& t : spec.inputs)
    if (t.dtype != DType::kInvalid && t.quant) return false;
  return !spec.outputs[0].quant;
}

}  // namespace

std::unique_ptr<Kernel> make_triangle_computed(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  if (!plain(spec) || !spec.has(1) || x.rank() < 2 || spec.inputs[1].shape.elements() != 1) return nullptr;
  const int64_t rows = x[x.rank() - 2], columns = x.back();
  if (rows + columns > INT32_MAX) return nullptr;
  Composition c(spec);
  const ValueId k = c.reshape(bounded(c, c.input(1), -rows - columns, rows + columns), {1});
  const ValueId diagonal = c.binary(Binary::kAdd, counted(c, rows, 2, 0), k);  // its column in each row
  const bool upper = spec.attrs<TriangleAttrs>().upper;
  const ValueId kept =
      c.binary(upper ? Binary::kLessEqual : Binary::kGreaterEqual, diagonal, counted(c, columns, 2, 1));
  return c.kernel({c.where(kept, c.input(0), c.scalar(spec.inputs[0].dtype, 0))});
}

std::unique_ptr<Kernel> make_reverse_computed(const KernelSpec& spec) {
  const auto& a = spec.attrs<DiagonalAttrs>();
  const Shape& x = spec.inputs[0].shape;
  const auto time_axis = normalize_axis(a.axis1, x.rank()), batch_axis = normalize_axis(a.axis2, x.rank());
  if (!time_axis.ok() || !batch_axis.ok()) return nullptr;
  const int time = *time_axis, batch = *batch_axis;
  const int64_t extent = x[time];
  if (extent > INT32_MAX - 2 || spec.inputs[1].shape.elements() != x[batch]) return nullptr;
  Composition c(spec);
  Shape along = Shape::of_rank(x.rank(), 1);
  along[batch] = x[batch];
  ValueId n = c.reshape(bounded(c, c.input(1), -1, extent + 1), dims_of(along));
  const auto number = [&](int64_t v) { return c.scalar(DType::kI32, static_cast<double>(v)); };
  if (n == kNoValue) return nullptr;
  n = c.where(c.binary(Binary::kLess, n, number(0)), number(extent + 1), n);  // no place in time: a fault
  const ValueId t = counted(c, extent, x.rank(), time);
  const ValueId mirrored = c.binary(Binary::kSub, c.binary(Binary::kSub, n, number(1)), t);
  const ValueId from = c.expand(c.where(c.binary(Binary::kLess, t, n), mirrored, t), x);
  GatherAttrs g;
  g.axis = time;
  g.negative = false;
  return c.kernel({c.add_as(Op::kGatherElements, make_attrs<GatherAttrs>(g), {c.input(0), from}, spec.outputs[0])},
                  "a length is beyond the time dimension");
}

std::unique_ptr<Kernel> make_masked_scatter(const KernelSpec& spec) {
  if (!plain(spec) || spec.inputs[1].dtype != DType::kBool) return nullptr;
  const Shape& y = spec.outputs[0].shape;
  const int64_t n = y.elements();
  Composition c(spec);
  const ValueId mask = c.reshape(c.expand(c.input(1), y), {n}), x = c.reshape(c.expand(c.input(0), y), {n});
  const ValueId count = c.add(Op::kCumulative, make_attrs<CumulativeAttrs>(), {c.cast(mask, DType::kI32), c.i64({0})});
  const ValueId taken = c.binary(Binary::kSub, count, c.scalar(DType::kI32, 1));
  GatherAttrs g;
  g.negative = false;
  const ValueId values = c.reshape(c.input(2), {spec.inputs[2].shape.elements()});
  const ValueId picked =
      c.add(Op::kGather, make_attrs<GatherAttrs>(g), {values, c.where(mask, taken, c.scalar(DType::kI32, 0))});
  return c.kernel({c.reshape(c.where(mask, picked, x), dims_of(y))}, "the mask takes more values than the source has");
}

std::unique_ptr<Kernel> make_sparse_to_dense(const KernelSpec& spec) {
  const Shape &indices = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  const int64_t tuple = indices.rank() == 2 ? indices[1] : 1, tuples = indices.elements() / std::max<int64_t>(tuple, 1);
  if (!plain(spec) || !is_index(spec.inputs[0].dtype) || tuple != y.rank() || tuples == 0) return nullptr;
  const int64_t n = spec.inputs[2].shape.elements();
  const bool one = spec.inputs[2].shape.rank() == 0 || (n == 1 && tuples != 1);
  if (spec.inputs[3].shape.elements() != 1 || (!one && n != tuples)) return nullptr;
  Composition c(spec);
  ValueId values = c.reshape(c.input(2), {n});
  if (one) values = c.expand(values, Shape{tuples});
  const ValueId dense = c.expand(c.reshape(c.input(3), {1}), Shape{y.elements()});
  const ValueId places = c.reshape(without_negative(c, c.input(0)), {tuples, tuple});
  return c.kernel({scatter(c, c.reshape(dense, dims_of(y)), places, values, ScatterAttrs::Reduce::kNone)});
}

std::unique_ptr<Kernel> make_index_add(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const auto tuple = static_cast<int>(spec.inputs.size()) - 2;
  if (!spec.attrs<IndexAttrs>().accumulate || !plain(spec) || tuple < 1 || tuple > std::min(4, x.rank()))
    return nullptr;
  if (spec.outputs[0].dtype == DType::kBool) return spec.refuse("bools are not accumulated");
  Shape place;
  for (size_t i = 2; i < spec.inputs.size(); ++i) {
    if (!spec.has(i) || spec.inputs[i].dtype != spec.inputs[2].dtype || !is_index(spec.inputs[i].dtype))
      return spec.refuse("only indices of one integer type in leading dimensions are accumulated");
    const auto joint = broadcast_shapes(place, spec.inputs[i].shape);
    if (!joint.ok()) return nullptr;
    place = *joint;
  }
  const int64_t n = place.elements();
  Composition c(spec);
  std::vector<ValueId> columns;
  for (size_t i = 2; i < spec.inputs.size(); ++i) columns.push_back(c.reshape(c.expand(c.input(i), place), {n, 1}));
  const ValueId tuples =
      columns.size() == 1 ? columns[0] : c.add(Op::kConcat, make_attrs<AxisAttrs>(1), std::move(columns));
  std::vector<int64_t> slices{n};
  for (int d = tuple; d < x.rank(); ++d) {
    place.push_back(x[d]);
    slices.push_back(x[d]);
  }
  ValueId values = c.input(1);
  if (c.shape(values).elements() != place.elements()) values = c.expand(values, place);
  return c.kernel({scatter(c, c.input(0), tuples, c.reshape(values, slices), ScatterAttrs::Reduce::kAdd)});
}

}  // namespace smelt::vulkan
