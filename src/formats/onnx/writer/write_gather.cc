// Indexing, scattering, selection and sorting.
#include <algorithm>
#include <limits>

#include "formats/onnx/writer/op_writers.h"
#include "ops/gather/gather.h"
#include "ops/sort/sort.h"

namespace smelt::onnx {
namespace {

void write_gather(NodeWriter& n) {
  const auto& a = n.attrs<GatherAttrs>();
  Name indices = n.stored(1);
  if (n.dtype(1) != DType::kI64 && n.dtype(1) != DType::kI32) indices = n.in_i64(1);
  if (a.batch_dims == 0) return n.bind_stored(0, n.op("Gather", {n.stored(0), indices}, {{"axis", a.axis}}));
  // With batches: the index becomes one of elements along the axis, which is the first behind the batches.
  const int rank = n.rank(0), index_rank = n.rank(1);
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  if (!n.ok()) return;
  if (axis == a.batch_dims)
    return n.bind_stored(
        0, n.op("GatherND", {n.stored(0), n.unsqueeze(n.in_i64(1), {-1})}, {{"batch_dims", a.batch_dims}}));
  if (index_rank != a.batch_dims + 1 || !n.out_type(0).is_static())
    return n.fail("indices of rank ", index_rank, " with ", a.batch_dims, " batch dimensions");
  std::vector<int64_t> ones;
  for (int64_t k = 0; k < rank; ++k)
    if (k >= a.batch_dims && k != axis) ones.push_back(k);
  const Shape& y = n.out_type(0).shape;
  const Name wide = n.op("Expand", {n.unsqueeze(n.in_i64(1), ones), n.i64({y.begin(), y.end()})});
  n.bind_stored(0, n.op("GatherElements", {n.stored(0), wide}, {{"axis", axis}}));
}

void write_gather_elements(NodeWriter& n) {
  n.bind_stored(0, n.op("GatherElements", {n.stored(0), n.in_i64(1)}, {{"axis", n.attrs<GatherAttrs>().axis}}));
}

void write_gather_nd(NodeWriter& n) {
  n.bind_stored(0, n.op("GatherND", {n.stored(0), n.in_i64(1)}, {{"batch_dims", n.attrs<GatherAttrs>().batch_dims}}));
}

/// The attribute `reduction` of an operator of the scatter family. False after fail().
bool scatter_attributes(NodeWriter& n, const ScatterAttrs& a, std::vector<Attribute>& out) {
  using Reduce = ScatterAttrs::Reduce;
  if (a.reduction == Reduce::kNone) return true;
  const int since = a.reduction == Reduce::kAdd || a.reduction == Reduce::kMul ? 16 : 18;
  if (a.reduction == Reduce::kMean || !a.include_self)
    n.fail("reduction ", to_string(a.reduction), " of updates alone");
  if (!n.model().need_opset(since)) n.fail("reduction ", to_string(a.reduction), " needs opset ", since);
  out.emplace_back("reduction", to_string(a.reduction));
  return n.ok();
}

void write_scatter_elements(NodeWriter& n) {
  const auto& a = n.attrs<ScatterAttrs>();
  std::vector<Attribute> attributes{{"axis", a.axis}};
  if (!scatter_attributes(n, a, attributes)) return;
  n.bind_stored(0, n.op("ScatterElements", {n.stored(0), n.in_i64(1), n.stored(2)}, std::move(attributes)));
}

void write_scatter_nd(NodeWriter& n) {
  std::vector<Attribute> attributes;
  if (!scatter_attributes(n, n.attrs<ScatterAttrs>(), attributes)) return;
  n.bind_stored(0, n.op("ScatterND", {n.stored(0), n.in_i64(1), n.stored(2)}, std::move(attributes)));
}

Name zeros(NodeWriter& n, Name shape, DType dtype) {
  return n.op("ConstantOfShape", {shape}, {{"value", Tensor(dtype, Shape{1})}});
}

/// Zeros with updates added; indices out of range have no effect.
void write_scatter_new(NodeWriter& n) {
  if (!n.model().need_opset(16)) return n.fail("reduction add needs opset 16");
  n.bind_stored(
      0, n.op("ScatterND", {zeros(n, n.in_i64(2), n.dtype(1)), n.in_i64(0), n.stored(1)}, {{"reduction", "add"}}));
}

void write_sparse_to_dense(NodeWriter& n) {
  const int rank = n.rank(0);
  Name indices = n.in_i64(0);
  if (rank == 0) indices = n.reshape(indices, {1, 1});
  if (rank == 1) indices = n.unsqueeze(indices, {1});
  const Name dense = n.op("Expand", {n.reshape(n.stored(3), {}), n.in_i64(1)});
  const Name rows = n.slice(n.op("Shape", {indices}), 0, 1, 0);
  n.bind_stored(0, n.op("ScatterND", {dense, indices, n.op("Expand", {n.stored(2), rows})}));
}

void write_index_select_put(NodeWriter& n) {
  const auto& a = n.attrs<ScatterAttrs>();
  const int rank = n.rank(0);
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  std::vector<int64_t> ones;
  for (int64_t k = 0; k < rank; ++k)
    if (k != axis) ones.push_back(k);
  std::vector<Attribute> attributes{{"axis", axis}};
  if (!scatter_attributes(n, a, attributes)) return;
  const Name wide = n.op("Expand", {n.unsqueeze(n.in_i64(1), ones), n.op("Shape", {n.stored(2)})});
  n.bind_stored(0, n.op("ScatterElements", {n.stored(0), wide, n.stored(2)}, std::move(attributes)));
}

/// x[i, j, ...] with integer tensors at the first dimensions.
void write_index_tensors(NodeWriter& n) {
  const int count = n.inputs() - 1;
  std::vector<Name> parts;
  int used = 0;
  for (int i = 0; i < count; ++i) {
    if (!n.has(i + 1)) continue;
    if (n.dtype(i + 1) == DType::kBool) return n.fail("masks as indices");
    ++used;
  }
  if (used == 1) {
    for (int i = 0; i < count; ++i)
      if (n.has(i + 1)) return n.bind_stored(0, n.op("Gather", {n.stored(0), n.in_i64(i + 1)}, {{"axis", int64_t{i}}}));
  }
  for (int i = 0; i < used; ++i) {
    if (!n.has(i + 1)) return n.fail("whole dimensions before indices");
    parts.push_back(n.in_i64(i + 1));
  }
  // All indices broadcast to one shape: that of their sum.
  Name shape = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) shape = n.op("Add", {shape, parts[i]});
  shape = n.op("Shape", {shape});
  for (Name& p : parts) p = n.unsqueeze(n.op("Expand", {p, shape}), {-1});
  n.bind_stored(0, n.op("GatherND", {n.stored(0), n.op("Concat", parts, {{"axis", int64_t{-1}}})}));
}

void write_one_hot(NodeWriter& n) {
  const auto& a = n.attrs<OneHotAttrs>();
  Name values = n.stored(2);
  if (n.has(3)) values = n.op("Concat", {n.reshape(n.stored(3), {1}), n.reshape(values, {1})}, {{"axis", int64_t{0}}});
  Name indices = n.stored(0);
  if (!a.wrap_negative) {
    // Negative indices count from the end in ONNX: those are moved out of range.
    const Name index = n.in_i64(0), zero = n.scalar(DType::kI64, 0), far = n.reshape(n.in_i64(1), {});
    indices = n.op("Where", {n.op("Less", {index, zero}), far, index});
  }
  n.bind_stored(0, n.op("OneHot", {indices, n.reshape(n.in_i64(1), {}), values}, {{"axis", a.axis}}));
}

void write_embedding_lookup(NodeWriter& n) {
  const bool same = !n.quantized(1) || n.out_type(0).quant;
  const Name table = same ? n.stored(1) : n.in(1);
  const Name y = n.op("Gather", {table, n.in_i64(0)});
  if (same && n.quantized(1))
    n.bind_stored(0, y);
  else
    n.bind(0, y);
}

void write_masked_select(NodeWriter& n) {
  const Name shape = n.op("Shape", {n.op("Or", {n.op("Equal", {n.stored(0), n.stored(0)}), n.in(1)})});
  const Name x = n.op("Expand", {n.stored(0), shape}), mask = n.op("Expand", {n.in(1), shape});
  n.bind_stored(0, n.op("Compress", {n.reshape(x, {-1}), n.reshape(mask, {-1})}, {{"axis", int64_t{0}}}));
}

void write_compress(NodeWriter& n) {
  const int64_t axis = n.attrs<AxisAttrs>().axis;
  std::vector<Attribute> attributes;
  if (axis != std::numeric_limits<int64_t>::min()) attributes.emplace_back("axis", axis);
  n.bind_stored(0, n.op("Compress", {n.stored(0), n.stored(1)}, std::move(attributes)));
}

/// The update replaces the slice at `start`, which is clamped so that it fits: the entries that the update covers are
/// scattered.
void write_dynamic_update_slice(NodeWriter& n) {
  if (!n.is_static(0) || !n.is_static(1)) return n.fail("the shapes must be known");
  const Shape &x = n.type(0).shape, &u = n.type(1).shape;
  if (x.rank() == 0) return n.bind_stored(0, n.stored(1));
  std::vector<int64_t> room;
  for (int k = 0; k < x.rank(); ++k) room.push_back(x[k] - u[k]);
  const Name start = n.op("Min", {n.op("Max", {n.in_i64(2), n.scalar(DType::kI64, 0)}), n.i64(room)});
  std::vector<Name> ranges;
  Shape wide = u;
  wide.push_back(1);
  for (int k = 0; k < x.rank(); ++k) {
    std::vector<int64_t> count(static_cast<size_t>(u[k])), shape(static_cast<size_t>(x.rank()) + 1, 1);
    for (size_t i = 0; i < count.size(); ++i) count[i] = static_cast<int64_t>(i);
    shape[static_cast<size_t>(k)] = u[k];
    const Name from = n.slice(start, k, k + 1, 0);
    const Name at = n.reshape(n.op("Add", {n.i64(count), from}), shape);
    ranges.push_back(n.op("Expand", {at, n.i64({wide.begin(), wide.end()})}));
  }
  n.bind_stored(0, n.op("ScatterND", {n.stored(0), n.op("Concat", ranges, {{"axis", int64_t{-1}}}), n.stored(1)}));
}

/// x with x[start:end:step] along an axis replaced.
void write_slice_scatter(NodeWriter& n) {
  const int rank = n.rank(0);
  const int64_t wanted = n.attrs<AxisAttrs>().axis, axis = wanted < 0 ? wanted + rank : wanted;
  const auto start = n.need_ints(2, "the start"), end = n.need_ints(3, "the end"), step = n.need_ints(4, "the step");
  if (!n.ok() || !n.is_static(0) || !n.is_static(1)) return n.fail("the shapes must be known");
  const Shape &x = n.type(0).shape, &part = n.type(1).shape;
  const int64_t extent = x[static_cast<int>(axis)], count = part[static_cast<int>(axis)];
  int64_t first = start[0] < 0 ? start[0] + extent : start[0];
  first = std::clamp<int64_t>(first, 0, extent);
  Shape spread = Shape::of_rank(rank, 1);
  spread[static_cast<int>(axis)] = count;
  Tensor index(DType::kI64, spread);
  for (int64_t i = 0; i < count; ++i) index.data<int64_t>()[i] = first + i * step[0];
  const Name wide = n.op("Expand", {n.tensor(index), n.i64({part.begin(), part.end()})});
  n.bind_stored(0, n.op("ScatterElements", {n.stored(0), wide, n.stored(1)}, {{"axis", axis}}));
}

void write_tensor_scatter(NodeWriter& n) {
  const auto& a = n.attrs<ScatterAttrs>();
  const char* const mode = a.reduction == ScatterAttrs::Reduce::kAdd ? "circular" : "linear";
  n.bind_stored(0, n.op("TensorScatter", {n.stored(0), n.stored(1), n.has(2) ? n.in_i64(2) : kNoName},
                        {{"axis", a.axis}, {"mode", mode}}));
}

void write_nonzero(NodeWriter& n) {
  Name y = n.op("NonZero", {n.stored(0)});
  if (n.attrs<NonZeroAttrs>().rows) y = n.transpose(y, {1, 0});
  n.bind_stored(0, y);
}

void bind_index(NodeWriter& n, int i, Name index) {
  if (!n.wants(i)) return;
  const DType to = n.out_type(i).dtype;
  n.bind_stored(i, to == DType::kI64 || to == DType::kInvalid ? index : n.cast(index, to));
}

void write_top_k(NodeWriter& n) {
  const auto& a = n.attrs<TopKAttrs>();
  const auto out = n.ops("TopK", {n.stored(0), n.reshape(n.in_i64(1), {1})}, 2,
                         {{"axis", a.axis}, {"largest", a.largest}, {"sorted", a.sorted}});
  n.bind_stored(0, out[0]);
  bind_index(n, 1, out[1]);
}

void write_sort(NodeWriter& n) {
  const auto& a = n.attrs<SortAttrs>();
  if (n.rank(0) == 0) return n.fail("a scalar");
  const Name extent = n.slice(n.op("Shape", {n.stored(0)}), a.axis, a.axis == -1 ? INT64_MAX : a.axis + 1, 0);
  const auto out =
      n.ops("TopK", {n.stored(0), extent}, 2, {{"axis", a.axis}, {"largest", a.descending}, {"sorted", true}});
  n.bind_stored(0, out[0]);
  bind_index(n, 1, out[1]);
}

void write_unique(NodeWriter& n) {
  const auto& a = n.attrs<UniqueAttrs>();
  std::vector<Attribute> attributes{{"sorted", a.sorted}};
  if (!a.flatten) attributes.emplace_back("axis", a.axis);
  const auto out = n.ops("Unique", {n.stored(0)}, 4, std::move(attributes));
  n.bind_stored(0, out[0]);
  for (int i = 1; i < 4; ++i) bind_index(n, i, out[static_cast<size_t>(i)]);
}

/// The number of boundaries that are not above each value.
void write_bucketize(NodeWriter& n) {
  const Name x = n.unsqueeze(n.in(0), {-1});
  Name edges = n.in(1);
  if (n.dtype(0) != n.dtype(1)) edges = n.cast(edges, n.dtype(0));
  const Name below = n.cast(n.op("GreaterOrEqual", {x, edges}), DType::kI64);
  const Name count = n.op("ReduceSum", {below, n.i64({-1})}, {{"keepdims", false}});
  bind_index(n, 0, count);
}

constexpr OpWriter kGather[] = {
    {Op::kGather, write_gather, "Gather; GatherND, GatherElements"},
    {Op::kGatherElements, write_gather_elements, "GatherElements"},
    {Op::kGatherND, write_gather_nd, "GatherND"},
    {Op::kScatterElements, write_scatter_elements, "ScatterElements"},
    {Op::kScatterND, write_scatter_nd, "ScatterND"},
    {Op::kScatterNew, write_scatter_new, "ConstantOfShape, ScatterND"},
    {Op::kSparseToDense, write_sparse_to_dense, "Expand, ScatterND"},
    {Op::kIndexSelectPut, write_index_select_put, "Expand, ScatterElements"},
    {Op::kIndexTensors, write_index_tensors, "Gather, GatherND"},
    {Op::kOneHot, write_one_hot, "OneHot"},
    {Op::kEmbeddingLookup, write_embedding_lookup, "Gather"},
    {Op::kMaskedSelect, write_masked_select, "Expand, Compress"},
    {Op::kCompress, write_compress, "Compress"},
    {Op::kDynamicUpdateSlice, write_dynamic_update_slice, "ScatterND"},
    {Op::kSliceScatter, write_slice_scatter, "ScatterElements"},
    {Op::kTensorScatter, write_tensor_scatter, "TensorScatter"},
    {Op::kNonZero, write_nonzero, "NonZero"},
    {Op::kTopK, write_top_k, "TopK"},
    {Op::kSort, write_sort, "TopK"},
    {Op::kUnique, write_unique, "Unique"},
    {Op::kBucketize, write_bucketize, "GreaterOrEqual, ReduceSum"},
};

}  // namespace

std::span<const OpWriter> gather_writers() { return kGather; }

}  // namespace smelt::onnx
