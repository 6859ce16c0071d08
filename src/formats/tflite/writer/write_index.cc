// Look-ups and updates by element, masks, and integer products as formulas of other operators.
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "ops/common/broadcast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Indices of input i as int32 without negative ones, which count from the end of `extent`.
int positive_indices(OpWriter& w, int i, int64_t extent) {
  SubgraphWriter& s = w.subgraph();
  if (const Tensor* t = w.constant(i)) {
    Tensor out(DType::kI32, t->shape());
    for (int64_t k = 0; k < t->elements(); ++k) {
      const int64_t v = get_int(*t, k);
      set_int(out, k, v < 0 ? v + extent : v);
    }
    return s.constant(std::move(out));
  }
  const int x = s.cast(w.in(i), DType::kI32);
  return w.select({w.compare(Code::LESS, x, s.i32_scalar(0)), w.add(x, s.i32_scalar(extent)), x});
}

int joined_columns(SubgraphWriter& s, const std::vector<int>& columns) {
  return s.add(Code::CONCATENATION, columns, DType::kI32, concat_options(1));
}

/// Indices along dimension d of input 0, whose size is that of the run; negative ones count from its end.
int wrapped_at_run_time(OpWriter& w, int at, int64_t d) {
  SubgraphWriter& s = w.subgraph();
  const int extent = s.add(Code::SLICE, {dims_of(s, w.in(0)), s.i32({d}), s.i32({1})}, DType::kI32);
  return w.select({w.compare(Code::LESS, at, s.i32_scalar(0)), w.add(at, s.reshape(extent, {})), at});
}

}  // namespace

int element_coordinates(OpWriter& w, int input, int64_t axis, int64_t extent) {
  SubgraphWriter& s = w.subgraph();
  const Shape& shape = w.in_type(input).shape;
  const int64_t n = shape.elements();
  const Shape strides = shape.strides();
  std::vector<int> columns;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d == axis) {
      const int at =
          extent < 0 ? wrapped_at_run_time(w, s.cast(w.in(input), DType::kI32), d) : positive_indices(w, input, extent);
      columns.push_back(s.reshape(at, {n, 1}));
      continue;
    }
    Tensor t(DType::kI32, Shape{n, 1});
    for (int64_t i = 0; i < n; ++i) t.data<int32_t>()[i] = static_cast<int32_t>(i / strides[d] % shape[d]);
    columns.push_back(s.constant(std::move(t)));
  }
  return joined_columns(s, columns);
}

namespace {

/// Coordinates [..., rank] of the elements of an index tensor whose sizes are known at run time.
int dynamic_coordinates(OpWriter& w, int input, int64_t axis) {
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(input);
  const int at = s.cast(w.in(input), DType::kI32), dims = dims_of(s, at);
  const auto entry = [&](int list, int64_t d) {
    return s.reshape(s.add(Code::SLICE, {list, s.i32({d}), s.i32({1})}, DType::kI32), {});
  };
  std::vector<int> columns;
  for (int64_t d = 0; d < rank; ++d) {
    if (d == axis) {
      columns.push_back(wrapped_at_run_time(w, at, d));
      continue;
    }
    std::vector<int64_t> shape(static_cast<size_t>(rank), 1);
    shape[static_cast<size_t>(d)] = -1;
    const int steps = s.add(Code::RANGE, {s.i32_scalar(0), entry(dims, d), s.i32_scalar(1)}, DType::kI32);
    columns.push_back(s.add(Code::BROADCAST_TO, {s.reshape(steps, shape), dims}, DType::kI32));
  }
  return s.add(Code::PACK, columns, DType::kI32,
               options_of<tfl::PackOptions>([=](auto& b) { return tfl::CreatePackOptions(b, rank, rank); }));
}

/// The largest, least or product of the updates at each place, joined with x.
int reduced_updates(OpWriter& w, ScatterAttrs::Reduce reduction, int coordinates, int updates) {
  using Reduce = ScatterAttrs::Reduce;
  SubgraphWriter& s = w.subgraph();
  const Shape& x = w.in_type(0).shape;
  const int64_t depth = w.node().op == Op::kScatterElements ? x.rank() : w.in_type(1).shape.back();
  // A segment is one place; what is behind the coordinates' dimensions is its contents.
  std::vector<int64_t> strides(static_cast<size_t>(depth), 1);
  int64_t segments = 1, inner = 1;
  for (int64_t d = depth; d-- > 0;) {
    strides[static_cast<size_t>(d)] = segments;
    segments *= x[static_cast<int>(d)];
  }
  for (auto d = static_cast<int>(depth); d < x.rank(); ++d) inner *= x[d];
  const int rows = s.reshape(coordinates, {-1, depth});
  const int ids = w.reduce(Code::SUM, w.mul(rows, s.i32(strides)), {1}, false);
  const Code of_segment = reduction == Reduce::kMul   ? Code::UNSORTED_SEGMENT_PROD
                          : reduction == Reduce::kMax ? Code::UNSORTED_SEGMENT_MAX
                                                      : Code::UNSORTED_SEGMENT_MIN;
  const int flat =
      s.add(of_segment, {s.reshape(updates, {-1, inner}), ids, s.i32_scalar(segments)}, s.at(updates).dtype);
  const int all = s.reshape(flat, {x.begin(), x.end()});
  if (reduction == Reduce::kMul) return w.mul(w.in(0), all);
  return w.binary(reduction == Reduce::kMax ? Code::MAXIMUM : Code::MINIMUM, w.in(0), all);
}

/// base, whose sizes `dims` holds, with updates at coordinates [..., k]: added, or in the place of its elements.
int scattered(OpWriter& w, int base, int dims, int coordinates, int updates, bool add) {
  SubgraphWriter& s = w.subgraph();
  const DType dtype = s.at(base).dtype;
  if (bit_width(dtype) < 32) {
    base = s.cast(base, DType::kI32);
    updates = s.cast(updates, DType::kI32);
  }
  const int added = s.add(Code::SCATTER_ND, {coordinates, updates, dims}, s.at(base).dtype);
  if (add) return s.cast(w.add(base, added), dtype);
  // Marks at the places that are written choose between base and the updates.
  const int ones = s.add(Code::FILL, {dims_of(s, updates), s.i32_scalar(1)}, DType::kI32);
  const int marks = s.add(Code::SCATTER_ND, {coordinates, ones, dims}, DType::kI32);
  return s.cast(w.select(w.compare(Code::GREATER, marks, s.i32_scalar(0)), added, base), dtype);
}

}  // namespace

bool scatter_updates(OpWriter& w, int coordinates, int updates) {
  using Reduce = ScatterAttrs::Reduce;
  const auto& a = w.attrs<ScatterAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  const int base = w.in(0);
  const DType dtype = s.at(base).dtype;
  if (!a.include_self) return false;
  if (a.reduction != Reduce::kNone && a.reduction != Reduce::kAdd) {
    const bool fits = x.is_static() && x.shape.elements() < INT32_MAX && (dtype == DType::kF32 || dtype == DType::kI32);
    if (!fits || a.reduction == Reduce::kMean || w.in_type(1).shape.back() < 0) return false;
    w.out(0, reduced_updates(w, a.reduction, coordinates, updates));
    return true;
  }
  const int dims = x.is_static() ? s.i32({x.shape.begin(), x.shape.end()}) : dims_of(s, base);
  w.out(0, scattered(w, base, dims, coordinates, updates, a.reduction == Reduce::kAdd));
  return true;
}

bool write_scatter_elements(OpWriter& w) {
  const auto& a = w.attrs<ScatterAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType &x = w.in_type(0), &indices = w.in_type(1);
  if (!x.ranked || !indices.ranked || x.shape.rank() < 1 || !w.unquantized()) return false;
  const int64_t axis = a.axis < 0 ? a.axis + x.shape.rank() : a.axis;
  int updates = w.in(2);
  const bool same = w.in_type(2).ranked && w.in_type(2).shape == indices.shape;
  if (!same || !indices.is_static()) {
    // Updates beyond the indices' shape are left out.
    const std::vector<int64_t> begin(static_cast<size_t>(x.shape.rank()), 0);
    const int size = indices.is_static() ? s.i32({indices.shape.begin(), indices.shape.end()}) : dims_of(s, w.in(1));
    updates = s.add(Code::SLICE, {updates, s.i32(begin), size}, s.at(updates).dtype);
  }
  const int64_t extent = x.shape[static_cast<int>(axis)];
  if (!indices.is_static() || extent < 0) return scatter_updates(w, dynamic_coordinates(w, 1, axis), updates);
  const int64_t n = indices.shape.elements();
  if (n < 1 || n * x.shape.rank() > (1 << 24)) return false;
  const int coordinates = element_coordinates(w, 1, axis, extent);
  return scatter_updates(w, coordinates, s.reshape(updates, {n}));
}

namespace {

/// Places in x that integer indices point to: index tensors for some dimensions, whole dimensions between them.
struct IndexedPlaces {
  std::vector<int> inputs = {};     ///< that are indices
  std::vector<int64_t> front = {};  ///< the indexed dimensions of x, then the others
  Shape shape = {};                 ///< that the indices broadcast to
  int64_t leading = 0;              ///< whole dimensions in front of the indexed ones in x[i, j, ...]

  int64_t count() const { return static_cast<int64_t>(inputs.size()); }
};

/// Nothing if an index is a mask or of unknown size.
std::optional<IndexedPlaces> indexed_places(OpWriter& w, int first) {
  IndexedPlaces p;
  for (int i = first; i < w.inputs(); ++i) {
    if (!w.has(i)) continue;
    const ValueType& t = w.in_type(i);
    if (!t.is_static() || (t.dtype != DType::kI32 && t.dtype != DType::kI64)) return std::nullopt;
    const auto joined = broadcast_shapes(p.shape, t.shape);
    if (!joined.ok()) return std::nullopt;
    p.shape = *joined;
    p.inputs.push_back(i);
    p.front.push_back(i - first);
  }
  if (p.inputs.empty()) return std::nullopt;
  const bool adjacent = p.front.back() - p.front.front() + 1 == p.count();
  p.leading = adjacent ? p.front.front() : 0;
  for (int64_t d = 0; d < w.rank(0); ++d)
    if (std::ranges::count(p.inputs, static_cast<int>(d) + first) == 0) p.front.push_back(d);
  return p;
}

/// Coordinates [n, count] of the indexed dimensions.
int coordinates_of(OpWriter& w, const IndexedPlaces& p) {
  SubgraphWriter& s = w.subgraph();
  std::vector<int> columns;
  for (size_t k = 0; k < p.inputs.size(); ++k) {
    const int i = p.inputs[k];
    int at = positive_indices(w, i, w.in_type(0).shape[static_cast<int>(p.front[k])]);
    if (!(w.in_type(i).shape == p.shape))
      at = s.add(Code::BROADCAST_TO, {at, s.i32({p.shape.begin(), p.shape.end()})}, DType::kI32);
    columns.push_back(s.reshape(at, {p.shape.elements(), 1}));
  }
  return columns.size() == 1 ? columns[0] : joined_columns(s, columns);
}

}  // namespace

/// x[i, j, ...] with integer indices: GATHER for one of them, else GATHER_ND.
bool write_index_tensors(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  std::vector<int> given;
  for (int i = 1; i < w.inputs(); ++i)
    if (w.has(i)) given.push_back(i);
  if (given.empty() || !x.is_static() || !w.unquantized()) return false;
  for (const int i : given)
    if (!is_integer(w.in_type(i).dtype)) return false;
  if (given.size() == 1) {
    const int axis = given[0] - 1;
    const int at = positive_indices(w, given[0], x.shape[axis]);
    return w.emit(Code::GATHER, {w.in(0), at},
                  options_of<tfl::GatherOptions>([=](auto& b) { return tfl::CreateGatherOptions(b, axis); }));
  }
  const auto p = indexed_places(w, 1);
  if (!p) return false;
  std::vector<int64_t> dims(p->shape.begin(), p->shape.end()), perm;
  for (auto k = static_cast<size_t>(p->count()); k < p->front.size(); ++k)
    dims.push_back(x.shape[static_cast<int>(p->front[k])]);
  const int source = s.transpose(w.in(0), p->front);
  const int flat = s.add(Code::GATHER_ND, {source, coordinates_of(w, *p)}, s.at(source).dtype);
  // [indices, leading, others] to [leading, indices, others]
  const int64_t indices = p->shape.rank();
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d)
    perm.push_back(d < p->leading ? d + indices : d < p->leading + indices ? d - p->leading : d);
  w.out(0, s.transpose(s.reshape(flat, dims), perm));
  return true;
}

/// x with values at the places that indices point to: a slice that is updated for one index, else a scatter.
bool write_index_put(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  if (!x.is_static() || !w.in_type(1).is_static() || !w.unquantized()) return false;
  const auto p = indexed_places(w, 2);
  if (!p || p->shape.elements() < 1) return false;
  const int rank = x.shape.rank();
  const bool add = w.attrs<IndexAttrs>().accumulate;
  // The dimensions of x[i, j, ...].
  std::vector<int64_t> result;
  for (int d = 0; d < p->leading; ++d) result.push_back(x.shape[d]);
  result.insert(result.end(), p->shape.begin(), p->shape.end());
  for (auto k = static_cast<size_t>(p->count() + p->leading); k < p->front.size(); ++k)
    result.push_back(x.shape[static_cast<int>(p->front[k])]);
  int values = w.in(1);
  if (!(w.in_type(1).shape == Shape(std::span<const int64_t>(result))))
    values = s.add(Code::BROADCAST_TO, {values, s.i32(result)}, s.at(values).dtype);
  if (p->count() == 1 && p->shape.elements() == 1 && !add) {
    std::vector<int64_t> slice(x.shape.begin(), x.shape.end());
    slice[static_cast<size_t>(p->leading)] = 1;
    const int place = s.reshape(positive_indices(w, p->inputs[0], x.shape[static_cast<int>(p->leading)]), {1});
    return w.emit(Code::DYNAMIC_UPDATE_SLICE,
                  {w.in(0), s.reshape(values, slice), slice_start(s, place, p->leading, rank)});
  }
  std::vector<int64_t> index_first, rows{p->shape.elements()}, dims, back(static_cast<size_t>(rank));
  for (int64_t d = 0; d < p->shape.rank(); ++d) index_first.push_back(p->leading + d);
  for (int64_t d = 0; d < static_cast<int64_t>(result.size()); ++d)
    if (d < p->leading || d >= p->leading + p->shape.rank()) index_first.push_back(d);
  for (size_t k = 0; k < p->front.size(); ++k) {
    dims.push_back(x.shape[static_cast<int>(p->front[k])]);
    if (static_cast<int64_t>(k) >= p->count()) rows.push_back(dims.back());
    back[static_cast<size_t>(p->front[k])] = static_cast<int64_t>(k);
  }
  const int updates = s.reshape(s.transpose(values, index_first), rows);
  const int front = s.transpose(w.in(0), p->front), size = s.i32(dims);
  const int y = scattered(w, front, size, coordinates_of(w, *p), updates, add);
  w.out(0, s.transpose(y, back));
  return true;
}

/// A triangle kept by a constant mask.
bool write_triangle(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  const auto k = w.has(1) ? w.number(1) : std::optional(0.0);
  const int rank = x.ranked ? x.shape.rank() : 0;
  if (rank < 2 || !k || !w.unquantized()) return false;
  const int64_t rows = x.shape[rank - 2], columns = x.shape[rank - 1];
  if (rows < 0 || columns < 0) return false;
  const bool upper = w.attrs<TriangleAttrs>().upper;
  Tensor mask(DType::kBool, Shape{rows, columns});
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      const auto offset = static_cast<double>(j - i);
      mask.data<uint8_t>()[i * columns + j] = upper ? offset >= *k : offset <= *k;
    }
  const int y = w.in(0), keep = s.constant(std::move(mask));
  if (s.at(y).dtype == DType::kBool) {
    w.out(0, w.binary(Code::LOGICAL_AND, y, keep));
    return true;
  }
  w.out(0, w.select(keep, y, w.number_like(y, 0)));
  return true;
}

/// Products of integers as products of float32 values, whose sums are exact up to 2^24.
bool write_matmul_integer(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const auto& a = w.attrs<MatMulAttrs>();
  if (a.transpose_a || w.rank(0) < 2 || w.rank(1) < 2 || !w.unquantized()) return false;
  const auto real = [&](int i, int zero) {
    int x = s.cast(w.in(i), DType::kF32);
    if (!w.has(zero)) return x;
    int z = s.cast(w.in(zero), DType::kF32);
    if (w.rank(zero) == 1 && w.in_type(zero).shape[0] == 1) z = s.reshape(z, {});
    if (i == 0 && s.at(z).ranked && s.at(z).shape.rank() == 1) z = s.reshape(z, {-1, 1});
    return w.sub(x, z);
  };
  const bool adjoint = a.transpose_b;
  const int y = s.add(
      Code::BATCH_MATMUL, {real(0, 2), real(1, 3)}, DType::kF32,
      options_of<tfl::BatchMatMulOptions>([=](auto& b) { return tfl::CreateBatchMatMulOptions(b, false, adjoint); }));
  w.out(0, s.cast(y, w.out_type(0).dtype));
  return true;
}

}  // namespace smelt::tflite
