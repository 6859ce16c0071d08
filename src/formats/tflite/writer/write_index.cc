// Look-ups and updates by element, masks, and integer products as formulas of other operators.
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
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
  return w.select(w.compare(Code::LESS, x, s.i32_scalar(0)), w.add(x, s.i32_scalar(extent)), x);
}

int joined_columns(SubgraphWriter& s, const std::vector<int>& columns) {
  return s.add(Code::CONCATENATION, columns, DType::kI32, concat_options(1));
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
      columns.push_back(s.reshape(positive_indices(w, input, extent), {n, 1}));
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
      const int extent = entry(dims_of(s, w.in(0)), d);
      columns.push_back(w.select(w.compare(Code::LESS, at, s.i32_scalar(0)), w.add(at, extent), at));
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

}  // namespace

bool scatter_updates(OpWriter& w, int coordinates, int updates) {
  using Reduce = ScatterAttrs::Reduce;
  const auto& a = w.attrs<ScatterAttrs>();
  SubgraphWriter& s = w.subgraph();
  const ValueType& x = w.in_type(0);
  int base = w.in(0);
  const DType dtype = s.at(base).dtype;
  if (!a.include_self) return false;
  if (a.reduction != Reduce::kNone && a.reduction != Reduce::kAdd) {
    const bool fits = x.is_static() && x.shape.elements() < INT32_MAX && (dtype == DType::kF32 || dtype == DType::kI32);
    if (!fits || a.reduction == Reduce::kMean || w.in_type(1).shape.back() < 0) return false;
    w.out(0, reduced_updates(w, a.reduction, coordinates, updates));
    return true;
  }
  const bool narrow = bit_width(dtype) < 32;
  if (narrow) {
    base = s.cast(base, DType::kI32);
    updates = s.cast(updates, DType::kI32);
  }
  const int dims = x.is_static() ? s.i32({x.shape.begin(), x.shape.end()}) : dims_of(s, base);
  const int added = s.add(Code::SCATTER_ND, {coordinates, updates, dims}, s.at(base).dtype);
  int y = -1;
  if (a.reduction == Reduce::kAdd) {
    y = w.add(base, added);
  } else {
    // Marks at the places that are written choose between x and the updates.
    const int ones = s.add(Code::FILL, {dims_of(s, updates), s.i32_scalar(1)}, DType::kI32);
    const int marks = s.add(Code::SCATTER_ND, {coordinates, ones, dims}, DType::kI32);
    y = w.select(w.compare(Code::GREATER, marks, s.i32_scalar(0)), added, base);
  }
  w.out(0, s.cast(y, dtype));
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
  return scatter_updates(w, element_coordinates(w, 1, axis, extent), s.reshape(updates, {n}));
}

/// x[i, j, ...] with integer indices: GATHER for one of them, GATHER_ND for those of the first dimensions.
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
  const ValueType& y = w.out_type(0);
  if (given.back() != static_cast<int>(given.size()) || !y.is_static()) return false;
  // All indices in the shape that they broadcast to, one a column.
  Shape shape;
  for (int d = 0; d < y.shape.rank() - (x.shape.rank() - static_cast<int>(given.size())); ++d)
    shape.push_back(y.shape[d]);
  const int64_t n = shape.elements();
  std::vector<int> columns;
  for (const int i : given) {
    int at = positive_indices(w, i, x.shape[i - 1]);
    if (!w.in_type(i).is_static()) return false;
    if (!(w.in_type(i).shape == shape))
      at = s.add(Code::BROADCAST_TO, {at, s.i32({shape.begin(), shape.end()})}, DType::kI32);
    columns.push_back(s.reshape(at, {n, 1}));
  }
  const int flat = s.add(Code::GATHER_ND, {w.in(0), joined_columns(s, columns)}, s.file_type(y).first);
  w.out(0, s.reshape(flat, {y.shape.begin(), y.shape.end()}));
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

/// Parameters of asymmetric uint8 from the range of all of x, which includes 0.
DynamicLevels dynamic_levels(OpWriter& w, int x, int rank) {
  SubgraphWriter& s = w.subgraph();
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  const int zero = s.f32(0);
  const int low = w.binary(Code::MINIMUM, w.reduce(Code::REDUCE_MIN, x, axes, false), zero);
  const int high = w.binary(Code::MAXIMUM, w.reduce(Code::REDUCE_MAX, x, axes, false), zero);
  const int range = w.div(w.sub(high, low), s.f32(255));
  const int scale = w.select(w.compare(Code::EQUAL, range, zero), s.f32(1), range);
  const auto clamped = [&](int v) { return w.binary(Code::MINIMUM, w.binary(Code::MAXIMUM, v, zero), s.f32(255)); };
  const int point = clamped(w.call(Code::ROUND, {w.sub(zero, w.div(low, scale))}));
  return {clamped(w.add(w.call(Code::ROUND, {w.div(x, scale)}), point)), range, point};
}

bool write_dynamic_quantize(OpWriter& w) {
  const auto& a = w.attrs<DynamicQuantizeAttrs>();
  SubgraphWriter& s = w.subgraph();
  if (a.to != DType::kU8 || a.symmetric || a.per_row || a.xnnpack_rule || a.quant_min != a.quant_max || w.rank(0) < 0 ||
      w.in_type(0).dtype != DType::kF32)
    return false;
  const DynamicLevels q = dynamic_levels(w, w.in(0), w.rank(0));
  if (w.wants(0)) w.out(0, s.cast(q.levels, DType::kU8));
  if (w.wants(1)) w.out(1, q.scale);
  if (w.wants(2)) w.out(2, s.cast(q.point, DType::kU8));
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
