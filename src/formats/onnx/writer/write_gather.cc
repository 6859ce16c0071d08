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
  Name indices = n.raw(1);
  if (n.dtype(1) != DType::kI64 && n.dtype(1) != DType::kI32) indices = n.in_i64(1);
  if (a.batch_dims == 0) {
    // One list of indices leaves the dimensions where they are.
    const bool list = n.type(1).ranked && n.type(1).shape.rank() == 1;
    const Order order = list ? order_at_hand(n) : Order::kAsIs;
    const int64_t axis = order == Order::kAsIs ? a.axis : axis_in(a.axis, n.rank(0), order);
    return n.bind_raw(0, n.op("Gather", {n.raw(0, order), indices}, {{"axis", axis}}), order);
  }
  // With batches: the index becomes one of elements along the axis, which is the first behind the batches.
  const int rank = n.rank(0), index_rank = n.rank(1);
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  if (!n.ok()) return;
  if (axis == a.batch_dims)
    return n.bind_raw(0, n.op("GatherND", {n.raw(0), n.unsqueeze(n.in_i64(1), {-1})}, {{"batch_dims", a.batch_dims}}));
  if (index_rank != a.batch_dims + 1 || !n.out_type(0).is_static())
    return n.fail("indices of rank ", index_rank, " with ", a.batch_dims, " batch dimensions");
  std::vector<int64_t> ones;
  for (int64_t k = 0; k < rank; ++k)
    if (k >= a.batch_dims && k != axis) ones.push_back(k);
  const Shape& y = n.out_type(0).shape;
  const Name wide = n.op("Expand", {n.unsqueeze(n.in_i64(1), ones), n.i64({y.begin(), y.end()})});
  n.bind_raw(0, n.op("GatherElements", {n.raw(0), wide}, {{"axis", axis}}));
}

void write_gather_elements(NodeWriter& n) {
  n.bind_raw(0, n.op("GatherElements", {n.raw(0), n.in_i64(1)}, {{"axis", n.attrs<GatherAttrs>().axis}}));
}

void write_gather_nd(NodeWriter& n) {
  n.bind_raw(0, n.op("GatherND", {n.raw(0), n.in_i64(1)}, {{"batch_dims", n.attrs<GatherAttrs>().batch_dims}}));
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
  n.bind_raw(0, n.op("ScatterElements", {n.raw(0), n.in_i64(1), n.raw(2)}, attributes));
}

void write_scatter_nd(NodeWriter& n) {
  std::vector<Attribute> attributes;
  if (!scatter_attributes(n, n.attrs<ScatterAttrs>(), attributes)) return;
  n.bind_raw(0, n.op("ScatterND", {n.raw(0), n.in_i64(1), n.raw(2)}, attributes));
}

Name zeros(NodeWriter& n, Name shape, DType dtype) {
  return n.op("ConstantOfShape", {shape}, {{"value", Tensor(dtype, Shape{1})}});
}

/// Zeros with updates added; indices out of range have no effect.
void write_scatter_new(NodeWriter& n) {
  if (!n.model().need_opset(16)) return n.fail("reduction add needs opset 16");
  n.bind_raw(0, n.op("ScatterND", {zeros(n, n.in_i64(2), n.dtype(1)), n.in_i64(0), n.raw(1)}, {{"reduction", "add"}}));
}

void write_sparse_to_dense(NodeWriter& n) {
  const int rank = n.rank(0);
  Name indices = n.in_i64(0);
  if (rank == 0) indices = n.reshape(indices, {1, 1});
  if (rank == 1) indices = n.unsqueeze(indices, {1});
  const Name dense = n.op("Expand", {n.reshape(n.raw(3), {}), n.in_i64(1)});
  const Name rows = n.slice(n.op("Shape", {indices}), 0, 1, 0);
  n.bind_raw(0, n.op("ScatterND", {dense, indices, n.op("Expand", {n.raw(2), rows})}));
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
  const Name wide = n.op("Expand", {n.unsqueeze(n.in_i64(1), ones), n.op("Shape", {n.raw(2)})});
  n.bind_raw(0, n.op("ScatterElements", {n.raw(0), wide, n.raw(2)}, attributes));
}

/// x[i, j, ...] in PyTorch's sense: index tensors for some dimensions, whole dimensions between them. The indexed
/// dimensions come first in the form that GatherND and ScatterND take.
class TensorIndex {
 public:
  /// Input `first` and those behind it are the indices.
  TensorIndex(NodeWriter& n, int first) : n_(n), rank_(n.rank(0)) {
    for (int i = first; i < n.inputs(); ++i) {
      if (!n.has(i))
        ++at_;
      else if (n.dtype(i) == DType::kBool || n.dtype(i) == DType::kU8)
        mask(i);
      else
        integers(i);
    }
    if (parts_.empty()) {
      n.fail("no index");
      return;
    }
    front_ = dims_;
    for (size_t k = 1; k < dims_.size(); ++k) adjacent_ = adjacent_ && dims_[k] == dims_[k - 1] + 1;
    for (int64_t d = 0; d < rank_; ++d)
      if (std::ranges::count(dims_, d) == 0) front_.push_back(d);
    join();
  }

  /// x with the indexed dimensions in front.
  Name source() { return std::ranges::is_sorted(front_) ? n_.raw(0) : n_.transpose(n_.raw(0), front_); }
  Name indices() const { return joined_; }
  /// A value like source() with the dimensions of x in their own order.
  Name like_x(Name y) {
    if (std::ranges::is_sorted(front_)) return y;
    std::vector<int64_t> perm(front_.size());
    for (size_t k = 0; k < front_.size(); ++k) perm[static_cast<size_t>(front_[k])] = static_cast<int64_t>(k);
    return n_.transpose(y, perm);
  }
  /// What GatherND gives, [index dimensions, others], in the order of x[i, j, ...].
  Name to_result(Name y) { return leading() == 0 ? y : n_.transpose(y, order(false)); }
  /// Values that broadcast to x[i, j, ...] in the order that ScatterND takes.
  Name from_result(Name values) {
    const Name x = n_.op("Shape", {n_.raw(0)});
    const int64_t p = leading();
    std::vector<Name> parts;
    if (p > 0) parts.push_back(n_.slice(x, 0, p, 0));
    parts.push_back(n_.slice(n_.op("Shape", {joined_}), 0, -1, 0));
    for (int64_t d = p; d < rank_; ++d)
      if (std::ranges::count(dims_, d) == 0) parts.push_back(n_.slice(x, d, d + 1, 0));
    const Name shape = parts.size() == 1 ? parts[0] : n_.op("Concat", parts, {{"axis", int64_t{0}}});
    const Name wide = n_.op("Expand", {values, shape});
    return p == 0 ? wide : n_.transpose(wide, order(true));
  }

 private:
  void integers(int i) {
    index_rank_ = std::max(index_rank_, n_.rank(i));
    parts_.push_back(n_.in_i64(i));
    dims_.push_back(at_++);
  }
  /// A mask stands for the positions where it holds, one list for each of its dimensions.
  void mask(int i) {
    const Name at = n_.op("NonZero", {n_.cast(n_.raw(i), DType::kBool)});
    for (int k = 0; k < n_.rank(i); ++k) {
      parts_.push_back(n_.squeeze(n_.slice(at, k, k + 1, 0), {0}));
      dims_.push_back(at_++);
    }
    index_rank_ = std::max(index_rank_, 1);
  }
  void join() {
    if (parts_.size() == 1) {
      joined_ = n_.unsqueeze(parts_[0], {-1});
      return;
    }
    // All indices broadcast to one shape: that of their sum.
    Name shape = parts_[0];
    for (size_t i = 1; i < parts_.size(); ++i) shape = n_.op("Add", {shape, parts_[i]});
    shape = n_.op("Shape", {shape});
    for (Name& p : parts_) p = n_.unsqueeze(n_.op("Expand", {p, shape}), {-1});
    joined_ = n_.op("Concat", parts_, {{"axis", int64_t{-1}}});
  }
  /// Whole dimensions before the index dimensions in x[i, j, ...].
  int64_t leading() const { return adjacent_ ? dims_[0] : 0; }
  /// The permutation between [index, leading, rest] and [leading, index, rest].
  std::vector<int64_t> order(bool index_first) const {
    const int64_t p = leading(), r = index_rank_, all = rank_ - static_cast<int64_t>(dims_.size()) + r;
    const int64_t begin = index_first ? p : r, end = p + r;
    std::vector<int64_t> perm;
    const auto add = [&](int64_t from, int64_t to) {
      for (int64_t k = from; k < to; ++k) perm.push_back(k);
    };
    add(begin, end);
    add(0, begin);
    add(end, all);
    return perm;
  }

  NodeWriter& n_;
  int64_t rank_, at_ = 0;
  int index_rank_ = 0;
  bool adjacent_ = true;
  std::vector<Name> parts_;
  std::vector<int64_t> dims_, front_;
  Name joined_ = kNoName;
};

void write_index_tensors(NodeWriter& n) {
  TensorIndex index(n, 1);
  if (n.ok()) n.bind_raw(0, index.to_result(n.op("GatherND", {index.source(), index.indices()})));
}

void write_index_put(NodeWriter& n) {
  const bool accumulate = n.attrs<IndexAttrs>().accumulate;
  if (accumulate && (n.dtype(0) == DType::kBool || !n.model().need_opset(16)))
    return n.fail("accumulated ", to_string(n.dtype(0)));
  TensorIndex index(n, 2);
  if (!n.ok()) return;
  std::vector<Attribute> attributes;
  if (accumulate) attributes.emplace_back("reduction", "add");
  const Name y = n.op("ScatterND", {index.source(), index.indices(), index.from_result(n.raw(1))}, attributes);
  n.bind_raw(0, index.like_x(y));
}

void write_one_hot(NodeWriter& n) {
  const auto& a = n.attrs<OneHotAttrs>();
  Name values = n.raw(2);
  if (n.has(3)) values = n.op("Concat", {n.reshape(n.raw(3), {1}), n.reshape(values, {1})}, {{"axis", int64_t{0}}});
  Name indices = n.raw(0);
  if (!a.wrap_negative) {
    // Negative indices count from the end in ONNX: those are moved out of range.
    const Name index = n.in_i64(0), zero = n.scalar(DType::kI64, 0), far = n.reshape(n.in_i64(1), {});
    indices = n.op("Where", {n.op("Less", {index, zero}), far, index});
  }
  n.bind_raw(0, n.op("OneHot", {indices, n.reshape(n.in_i64(1), {}), values}, {{"axis", a.axis}}));
}

void write_embedding_lookup(NodeWriter& n) {
  const bool same = !n.quantized(1) || n.out_type(0).quant;
  const Name table = same ? n.raw(1) : n.in(1);
  const Name y = n.op("Gather", {table, n.in_i64(0)});
  if (same && n.quantized(1))
    n.bind_raw(0, y);
  else
    n.bind(0, y);
}

void write_masked_select(NodeWriter& n) {
  const Name shape = n.op("Shape", {n.op("Or", {n.op("Equal", {n.raw(0), n.raw(0)}), n.in(1)})});
  const Name x = n.op("Expand", {n.raw(0), shape}), mask = n.op("Expand", {n.in(1), shape});
  n.bind_raw(0, n.op("Compress", {n.reshape(x, {-1}), n.reshape(mask, {-1})}, {{"axis", int64_t{0}}}));
}

void write_compress(NodeWriter& n) {
  const int64_t axis = n.attrs<AxisAttrs>().axis;
  std::vector<Attribute> attributes;
  if (axis != std::numeric_limits<int64_t>::min()) attributes.emplace_back("axis", axis);
  n.bind_raw(0, n.op("Compress", {n.raw(0), n.raw(1)}, attributes));
}

/// The update replaces the slice at `start`, which is clamped so that it fits: the entries that the update covers are
/// scattered.
/// A slice of computed size: the updates, padded to the size of x, where a mask of ones padded so holds.
void update_open_slice(NodeWriter& n) {
  const DType dtype = n.dtype(0);
  if (dtype != DType::kF32 && dtype != DType::kI32 && dtype != DType::kI64)
    return n.fail("the shapes must be known for ", to_string(dtype));
  const Name size = n.op("Shape", {n.raw(1)}), most = n.op("Sub", {n.op("Shape", {n.raw(0)}), size});
  const Name start = n.op("Min", {n.op("Max", {n.in_i64(2), n.scalar(DType::kI64, 0)}), most});
  const Name pads = n.op("Concat", {start, n.op("Sub", {most, start})}, {{"axis", int64_t{0}}});
  Tensor one(DType::kI32, Shape{1});
  one.data<int32_t>()[0] = 1;
  const Name mask = n.op("Pad", {n.op("ConstantOfShape", {size}, {{"value", one}}), pads});
  n.bind_raw(0, n.op("Where", {n.cast(mask, DType::kBool), n.op("Pad", {n.raw(1), pads}), n.raw(0)}));
}

void write_dynamic_update_slice(NodeWriter& n) {
  if (!n.is_static(0) || !n.is_static(1)) return update_open_slice(n);
  const Shape &x = n.type(0).shape, &u = n.type(1).shape;
  if (x.rank() == 0) return n.bind_raw(0, n.raw(1));
  std::vector<int64_t> last_start;
  for (int k = 0; k < x.rank(); ++k) last_start.push_back(x[k] - u[k]);
  const Name start = n.op("Min", {n.op("Max", {n.in_i64(2), n.scalar(DType::kI64, 0)}), n.i64(last_start)});
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
  n.bind_raw(0, n.op("ScatterND", {n.raw(0), n.op("Concat", ranges, {{"axis", int64_t{-1}}}), n.raw(1)}));
}

/// x with x[start:end:step] along an axis replaced.
void write_slice_scatter(NodeWriter& n) {
  const int rank = n.rank(0);
  const int64_t wanted = n.attrs<AxisAttrs>().axis, axis = wanted < 0 ? wanted + rank : wanted;
  const auto start = n.need_ints(2, "the start"), step = n.need_ints(4, "the step");
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
  n.bind_raw(0, n.op("ScatterElements", {n.raw(0), wide, n.raw(1)}, {{"axis", axis}}));
}

void write_tensor_scatter(NodeWriter& n) {
  const auto& a = n.attrs<ScatterAttrs>();
  const char* const mode = a.reduction == ScatterAttrs::Reduce::kAdd ? "circular" : "linear";
  n.bind_raw(0, n.op("TensorScatter", {n.raw(0), n.raw(1), n.has(2) ? n.in_i64(2) : kNoName},
                     {{"axis", a.axis}, {"mode", mode}}));
}

void write_nonzero(NodeWriter& n) {
  Name y = n.op("NonZero", {n.raw(0)});
  if (n.attrs<NonZeroAttrs>().rows) y = n.transpose(y, {1, 0});
  n.bind_raw(0, y);
}

void bind_index(NodeWriter& n, int i, Name index) {
  if (!n.wants(i)) return;
  const DType to = n.out_type(i).dtype;
  n.bind_raw(i, to == DType::kI64 || to == DType::kInvalid ? index : n.cast(index, to));
}

void write_top_k(NodeWriter& n) {
  const auto& a = n.attrs<TopKAttrs>();
  const auto out = n.ops("TopK", {n.raw(0), n.reshape(n.in_i64(1), {1})}, 2,
                         {{"axis", a.axis}, {"largest", a.largest}, {"sorted", a.sorted}});
  n.bind_raw(0, out[0]);
  bind_index(n, 1, out[1]);
}

void write_sort(NodeWriter& n) {
  const auto& a = n.attrs<SortAttrs>();
  if (n.rank(0) == 0) return n.fail("a scalar");
  const Name extent = n.slice(n.op("Shape", {n.raw(0)}), a.axis, a.axis == -1 ? INT64_MAX : a.axis + 1, 0);
  const auto out =
      n.ops("TopK", {n.raw(0), extent}, 2, {{"axis", a.axis}, {"largest", a.descending}, {"sorted", true}});
  n.bind_raw(0, out[0]);
  bind_index(n, 1, out[1]);
}

void write_unique(NodeWriter& n) {
  const auto& a = n.attrs<UniqueAttrs>();
  std::vector<Attribute> attributes{{"sorted", a.sorted}};
  if (!a.flatten) attributes.emplace_back("axis", a.axis);
  const auto out = n.ops("Unique", {n.raw(0)}, 4, attributes);
  n.bind_raw(0, out[0]);
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
    {Op::kIndexTensors, write_index_tensors, "GatherND"},
    {Op::kIndexPut, write_index_put, "ScatterND"},
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
