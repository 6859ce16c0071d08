// Slices, borders and other index maps.
#include <algorithm>
#include <limits>

#include "formats/onnx/writer/op_writers.h"
#include "ops/shape/shape.h"

namespace smelt::onnx {
namespace {

constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
constexpr int64_t kBeforeFirst = std::numeric_limits<int64_t>::min();
constexpr int64_t kMaxIndexMap = int64_t{1} << 22;  ///< entries of an index map that is written as a constant

/// Input i as a 1-D list of int64.
Name list(NodeWriter& n, int i) {
  if (const auto v = n.ints(i)) return n.i64(*v);
  const Name x = n.in_i64(i);
  return n.type(i).ranked && n.type(i).shape.rank() == 1 ? x : n.reshape(x, {-1});
}

void write_slice(NodeWriter& n) {
  Name ends = kNoName;
  const auto steps = n.ints(4);
  auto limits = n.ints(2);
  if (limits && steps && steps->size() == limits->size()) {
    for (size_t k = 0; k < limits->size(); ++k)
      if ((*steps)[k] < 0 && ((*limits)[k] == kLast || (*limits)[k] == INT32_MAX)) (*limits)[k] = kBeforeFirst;
    ends = n.i64(*limits);
  } else {
    ends = list(n, 2);
  }
  std::vector<Name> in{n.raw(0), list(n, 1), ends, n.has(3) ? list(n, 3) : kNoName, n.has(4) ? list(n, 4) : kNoName};
  n.bind_raw(0, n.op("Slice", in));
}

void write_slice_size(NodeWriter& n) {
  const Name begin = list(n, 1);
  const auto sizes = n.ints(2), starts = n.ints(1);
  if (sizes && starts && sizes->size() == starts->size()) {
    std::vector<int64_t> ends;
    for (size_t k = 0; k < sizes->size(); ++k) ends.push_back((*sizes)[k] < 0 ? kLast : (*starts)[k] + (*sizes)[k]);
    return n.bind_raw(0, n.op("Slice", {n.raw(0), begin, n.i64(ends)}));
  }
  const Name size = list(n, 2);
  const Name rest = n.op("Less", {size, n.scalar(DType::kI64, 0)});
  const Name last = n.tensor(Tensor::from<int64_t>(DType::kI64, Shape{}, {&kLast, 1}));
  n.bind_raw(0, n.op("Slice", {n.raw(0), begin, n.op("Where", {rest, last, n.op("Add", {begin, size})})}));
}

/// TFLite's STRIDED_SLICE: its masks and lists become those of Slice, Squeeze and Unsqueeze.
class StridedSlice {
 public:
  explicit StridedSlice(NodeWriter& n) : n_(n), a_(n.attrs<StridedSliceAttrs>()), x_(n.raw(0)) {}

  void write() {
    const auto strides = n_.need_ints(3, "the strides");
    const int rank = n_.rank(0);
    if (!n_.ok()) return;
    const auto begin = n_.ints(1), end = n_.ints(2);
    entries_ = strides.size();
    int axis = 0;
    for (size_t k = 0; k < entries_; ++k) {
      if (bit(a_.ellipsis_mask, k)) {
        axis += rank - axis - remaining(k + 1);
        continue;
      }
      if (bit(a_.new_axis_mask, k)) {
        added_.push_back(axis - static_cast<int>(removed_.size()) + static_cast<int>(added_.size()));
        continue;
      }
      axes_.push_back(axis);
      steps_.push_back(strides[k]);
      from_.push_back(k);
      if (bit(a_.shrink_axis_mask, k)) removed_.push_back(axis);
      ++axis;
    }
    if (begin && end)
      constant(*begin, *end);
    else
      dynamic_bounds();
    if (!removed_.empty()) x_ = n_.squeeze(x_, removed_);
    if (!added_.empty()) x_ = n_.unsqueeze(x_, added_);
    n_.bind_raw(0, x_);
  }

 private:
  static bool bit(int64_t mask, size_t k) { return k < 63 && (mask >> k & 1) != 0; }
  /// Dimensions of x that the entries from k on stand for.
  int remaining(size_t k) const {
    int count = 0;
    for (; k < entries_; ++k) count += !bit(a_.new_axis_mask, k) && !bit(a_.ellipsis_mask, k);
    return count;
  }

  void constant(const std::vector<int64_t>& begin, const std::vector<int64_t>& end) {
    std::vector<int64_t> starts, ends;
    for (size_t j = 0; j < axes_.size(); ++j) {
      const size_t k = from_[j];
      if (bit(a_.shrink_axis_mask, k)) {
        starts.push_back(begin[k]);
        ends.push_back(begin[k] == -1 ? kLast : begin[k] + 1);
        steps_[j] = 1;
        continue;
      }
      const bool forward = steps_[j] > 0;
      starts.push_back(!bit(a_.begin_mask, k) ? begin[k] : forward ? 0 : kLast);
      const int64_t stop = a_.offset ? begin[k] + end[k] : end[k];
      ends.push_back(bit(a_.end_mask, k) ? (forward ? kLast : kBeforeFirst) : stop);
      // A negative end of a backward slice counts from the end, and -1 - n stands before the first element.
    }
    x_ = n_.op("Slice", {x_, n_.i64(starts), n_.i64(ends), n_.i64(axes_), n_.i64(steps_)});
  }

  void dynamic_bounds() {
    if (a_.offset || a_.ellipsis_mask != 0 || a_.new_axis_mask != 0) return n_.fail("begin and end must be constant");
    const Name begin = list(n_, 1);
    Name starts = begin, ends = list(n_, 2);
    const auto choose = [&](int64_t mask, Name given, const std::vector<int64_t>& other) {
      Tensor chosen(DType::kBool, Shape{static_cast<int64_t>(entries_)});
      for (size_t k = 0; k < entries_; ++k) chosen.data<uint8_t>()[k] = bit(mask, k);
      return mask == 0 ? given : n_.op("Where", {n_.tensor(chosen), n_.i64(other), given});
    };
    std::vector<int64_t> first, past;
    for (const int64_t s : steps_) {
      first.push_back(s > 0 ? 0 : kLast);
      past.push_back(s > 0 ? kLast : kBeforeFirst);
    }
    starts = choose(a_.begin_mask & ~a_.shrink_axis_mask, starts, first);
    ends = choose(a_.end_mask, ends, past);
    if (a_.shrink_axis_mask != 0) {
      const Name next = n_.op("Add", {begin, n_.scalar(DType::kI64, 1)});
      const Name wraps = n_.op("Equal", {next, n_.scalar(DType::kI64, 0)});
      const Name last = n_.tensor(Tensor::from<int64_t>(DType::kI64, Shape{}, {&kLast, 1}));
      Tensor shrunk(DType::kBool, Shape{static_cast<int64_t>(entries_)});
      for (size_t k = 0; k < entries_; ++k) shrunk.data<uint8_t>()[k] = bit(a_.shrink_axis_mask, k);
      ends = n_.op("Where", {n_.tensor(shrunk), n_.op("Where", {wraps, last, next}), ends});
    }
    x_ = n_.op("Slice", {x_, starts, ends, n_.i64(axes_), n_.i64(steps_)});
  }

  NodeWriter& n_;
  const StridedSliceAttrs& a_;
  Name x_;
  size_t entries_ = 0;
  std::vector<int64_t> axes_, steps_, removed_, added_;
  std::vector<size_t> from_;  ///< entry of begin, end and strides for each axis
};

void write_strided_slice(NodeWriter& n) { StridedSlice(n).write(); }

/// x with entries index[axis] of each axis that has a list.
Name gathered(NodeWriter& n, Name x, const std::vector<int64_t>& index, int64_t axis) {
  return n.op("Gather", {x, n.i64(index)}, {{"axis", axis}});
}

/// Mirror with the edge repeated, which ONNX's Pad lacks.
void symmetric_pad(NodeWriter& n, const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  Name x = n.raw(0);
  for (size_t k = 0; k < before.size(); ++k) {
    if (before[k] == 0 && after[k] == 0) continue;
    const int64_t extent = n.type(0).shape[static_cast<int>(k)];
    if (extent <= 0) return n.fail("the size of dimension ", k, " must be known");
    std::vector<int64_t> index;
    for (int64_t p = -before[k]; p < extent + after[k]; ++p) {
      const int64_t period = 2 * extent, at = ((p % period) + period) % period;
      index.push_back(at < extent ? at : period - 1 - at);
    }
    x = gathered(n, x, index, static_cast<int64_t>(k));
  }
  n.bind_raw(0, x);
}

void write_pad(NodeWriter& n) {
  using Mode = PadAttrs::Mode;
  const auto& a = n.attrs<PadAttrs>();
  const char* const mode = a.mode == Mode::kReflect ? "reflect"
                           : a.mode == Mode::kEdge  ? "edge"
                           : a.mode == Mode::kWrap  ? "wrap"
                                                    : "constant";
  if (a.mode == Mode::kWrap && !n.model().need_opset(19)) return n.fail("wrapped borders need opset 19");
  const auto pads = n.ints(1), axes = n.has(3) ? n.ints(3) : std::vector<int64_t>{};
  Name value = kNoName;
  if (a.mode == Mode::kConstant) {
    if (n.has(2))
      value = n.type(2).ranked && n.type(2).shape.rank() == 0 ? n.raw(2) : n.reshape(n.raw(2), {});
    else if (n.quantized(0))
      value = n.scalar(n.dtype(0), n.type(0).quant->zero_point());
  }
  if (!pads || !axes || !n.type(0).ranked) {
    Name all = n.in_i64(1);
    if (a.pairs) all = n.reshape(n.transpose(n.reshape(all, {-1, 2}), {1, 0}), {-1});
    if (n.has(3) && !n.model().need_opset(18)) return n.fail("axes of a border need opset 18");
    return n.bind_raw(0, n.op("Pad", {n.raw(0), all, value, n.in_i64(3)}, {{"mode", mode}}));
  }
  const int rank = n.type(0).shape.rank();
  std::vector<int64_t> before(static_cast<size_t>(rank), 0), after = before;
  const size_t count = pads->size() / 2;
  for (size_t k = 0; k < count; ++k) {
    const int64_t axis = axes->empty() ? static_cast<int64_t>(k) : (*axes)[k] < 0 ? (*axes)[k] + rank : (*axes)[k];
    before[static_cast<size_t>(axis)] = (*pads)[a.pairs ? 2 * k : k];
    after[static_cast<size_t>(axis)] = (*pads)[a.pairs ? 2 * k + 1 : count + k];
  }
  if (a.mode == Mode::kSymmetric) return symmetric_pad(n, before, after);
  const bool first = rank >= 3 && n.channels_first_at_hand(0);
  const Order order = first ? Order::kChannelsFirst : Order::kAsIs;
  std::vector<int64_t> all;
  const auto perm = to_channels_first(std::max(rank, 3));
  for (const auto* side : {&before, &after})
    for (int k = 0; k < rank; ++k)
      all.push_back((*side)[static_cast<size_t>(first ? perm[static_cast<size_t>(k)] : k)]);
  n.bind_raw(0, n.op("Pad", {n.raw(0, order), n.i64(all), value}, {{"mode", mode}}), order);
}

void write_reverse(NodeWriter& n) {
  const auto axes = n.need_ints(1, "the axes");
  const std::vector<int64_t> starts(axes.size(), -1), ends(axes.size(), kBeforeFirst), steps(axes.size(), -1);
  if (axes.empty()) return n.bind_raw(0, n.raw(0));
  n.bind_raw(0, n.op("Slice", {n.raw(0), n.i64(starts), n.i64(ends), n.i64(axes), n.i64(steps)}));
}

void write_reverse_sequence(NodeWriter& n) {
  const auto& a = n.attrs<DiagonalAttrs>();
  const int rank = n.rank(0);
  const int64_t time = a.axis1 < 0 ? a.axis1 + rank : a.axis1, batch = a.axis2 < 0 ? a.axis2 + rank : a.axis2;
  const Name lengths = n.in_i64(1);
  if (time < 2 && batch < 2)
    return n.bind_raw(0, n.op("ReverseSequence", {n.raw(0), lengths}, {{"time_axis", time}, {"batch_axis", batch}}));
  std::vector<int64_t> perm{batch, time}, back(static_cast<size_t>(rank));
  for (int64_t k = 0; k < rank; ++k)
    if (k != batch && k != time) perm.push_back(k);
  for (size_t k = 0; k < perm.size(); ++k) back[static_cast<size_t>(perm[k])] = static_cast<int64_t>(k);
  const Name y = n.op("ReverseSequence", {n.transpose(n.raw(0), perm), lengths},
                      {{"time_axis", int64_t{1}}, {"batch_axis", int64_t{0}}});
  n.bind_raw(0, n.transpose(y, back));
}

void write_triangle(NodeWriter& n) {
  const bool upper = n.attrs<TriangleAttrs>().upper;
  n.bind_raw(0, n.op("Trilu", {n.raw(0), n.has(1) ? n.in_i64(1) : kNoName}, {{"upper", upper}}));
}

void write_diagonal(NodeWriter& n) {
  const auto& a = n.attrs<DiagonalAttrs>();
  const int rank = n.rank(0);
  const int64_t first = a.axis1 < 0 ? a.axis1 + rank : a.axis1, second = a.axis2 < 0 ? a.axis2 + rank : a.axis2;
  const Shape& x = n.type(0).shape;
  if (!n.ok()) return;
  const int64_t rows = x[static_cast<int>(first)], columns = x[static_cast<int>(second)];
  if (rows < 0 || columns < 0) return n.fail("the size of the matrices must be known");
  std::vector<int64_t> perm, index, flat;
  for (int64_t k = 0; k < rank; ++k)
    if (k != first && k != second) perm.push_back(k);
  flat.assign(perm.size(), 0);
  flat.push_back(-1);
  perm.insert(perm.end(), {first, second});
  for (int64_t i = std::max<int64_t>(0, -a.offset), j = std::max<int64_t>(0, a.offset); i < rows && j < columns;
       ++i, ++j)
    index.push_back(i * columns + j);
  n.bind_raw(0, gathered(n, n.reshape(n.transpose(n.raw(0), perm), flat), index, -1));
}

/// True on the diagonal of a [rows, columns] matrix.
Tensor diagonal_mask(int64_t rows, int64_t columns) {
  Tensor mask(DType::kBool, Shape{rows, columns});
  for (int64_t i = 0; i < std::min(rows, columns); ++i) mask.data<uint8_t>()[i * columns + i] = 1;
  return mask;
}

void write_matrix_diag(NodeWriter& n) {
  const Shape& y = n.out_type(0).shape;
  if (n.rank(0) < 1 || y.rank() < 2 || y.back() < 0) return n.fail("the size of the matrices must be known");
  const Name mask = n.tensor(diagonal_mask(y.back(), y.back()));
  n.bind_raw(0, n.op("Where", {mask, n.unsqueeze(n.raw(0), {-1}), n.scalar(n.dtype(0), 0)}));
}

void write_matrix_set_diag(NodeWriter& n) {
  const Shape& x = n.type(0).shape;
  const int rank = n.rank(0);
  if (rank < 2 || x[rank - 1] < 0 || x[rank - 2] < 0) return n.fail("the size of the matrices must be known");
  Name diagonal = n.raw(1);
  const int64_t rows = x[rank - 2], columns = x[rank - 1];
  // Row i takes entry i; rows behind a shorter diagonal take none.
  if (rows > columns) {
    std::vector<int64_t> pads(static_cast<size_t>(2 * (rank - 1)), 0);
    pads.back() = rows - columns;
    diagonal = n.op("Pad", {diagonal, n.i64(pads)});
  }
  n.bind_raw(0, n.op("Where", {n.tensor(diagonal_mask(rows, columns)), n.unsqueeze(diagonal, {-1}), n.raw(0)}));
}

void write_as_strided(NodeWriter& n) {
  const auto& a = n.attrs<AsStridedAttrs>();
  int64_t count = 1;
  for (const int64_t s : a.size) count *= s;
  if (count > kMaxIndexMap) return n.fail("an index map of ", count, " entries");
  std::vector<int64_t> index(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = a.offset;
    for (size_t k = a.size.size(); k-- > 0; rest /= a.size[k]) at += rest % a.size[k] * a.stride[k];
    index[static_cast<size_t>(i)] = at;
  }
  n.bind_raw(0, n.reshape(gathered(n, n.reshape(n.raw(0), {-1}), index, 0), a.size));
}

void write_unfold(NodeWriter& n) {
  const auto& a = n.attrs<UnfoldAttrs>();
  const int rank = n.rank(0);
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  if (!n.ok() || rank == 0) return n.fail("a scalar");
  const int64_t extent = n.type(0).shape[static_cast<int>(axis)];
  if (extent < a.size) return n.fail("the size of dimension ", axis, " must be known");
  const int64_t windows = (extent - a.size) / a.step + 1;
  std::vector<int64_t> index, perm;
  for (int64_t w = 0; w < windows; ++w)
    for (int64_t k = 0; k < a.size; ++k) index.push_back(w * a.step + k);
  Tensor map = Tensor::from<int64_t>(DType::kI64, Shape{windows, a.size}, index);
  const Name y = n.op("Gather", {n.raw(0), n.tensor(map)}, {{"axis", axis}});
  for (int64_t k = 0; k <= rank; ++k)
    if (k != axis + 1) perm.push_back(k);
  perm.push_back(axis + 1);
  n.bind_raw(0, n.transpose(y, perm));
}

void write_roll(NodeWriter& n) {
  const auto shifts = n.need_ints(1, "the shifts");
  auto axes = n.need_ints(2, "the axes");
  if (!n.ok()) return;
  const bool flat = axes.empty();
  if (!n.type(0).is_static()) return n.fail("the shape must be known");
  const Shape& x = n.type(0).shape;
  Name y = flat ? n.reshape(n.raw(0), {-1}) : n.raw(0);
  if (flat) axes = {0};
  for (size_t k = 0; k < axes.size(); ++k) {
    const int64_t axis = axes[k] < 0 ? axes[k] + x.rank() : axes[k];
    const int64_t extent = flat ? x.elements() : x[static_cast<int>(axis)];
    const int64_t shift = extent > 0 ? ((shifts[k] % extent) + extent) % extent : 0;
    if (shift == 0) continue;
    y = n.op("Concat", {n.slice(y, extent - shift, extent, axis), n.slice(y, 0, extent - shift, axis)},
             {{"axis", axis}});
  }
  n.bind_raw(0, flat ? n.reshape(y, {x.begin(), x.end()}) : y);
}

void write_repeat_interleave(NodeWriter& n) {
  const int rank = n.rank(0);
  const int64_t wanted = n.attrs<AxisAttrs>().axis, axis = wanted < 0 ? wanted + rank : wanted;
  const auto repeats = n.need_ints(1, "the repeats");
  if (!n.ok() || axis >= rank || repeats.empty()) return n.fail("the repeats");
  const int64_t extent = n.type(0).shape[static_cast<int>(axis)];
  if (extent < 0) return n.fail("the size of dimension ", axis, " must be known");
  std::vector<int64_t> index;
  for (int64_t i = 0; i < extent; ++i) {
    const int64_t times = repeats.size() == 1 ? repeats[0] : repeats[static_cast<size_t>(i)];
    if (times < 0 || static_cast<int64_t>(index.size()) + times > kMaxIndexMap) return n.fail("too many repeats");
    index.insert(index.end(), static_cast<size_t>(times), i);
  }
  n.bind_raw(0, gathered(n, n.raw(0), index, axis));
}

constexpr OpWriter kSlice[] = {
    {Op::kSlice, write_slice, "Slice"},
    {Op::kSliceSize, write_slice_size, "Slice"},
    {Op::kStridedSlice, write_strided_slice, "Slice, Squeeze, Unsqueeze"},
    {Op::kPad, write_pad, "Pad; Gather"},
    {Op::kReverse, write_reverse, "Slice"},
    {Op::kReverseSequence, write_reverse_sequence, "ReverseSequence"},
    {Op::kTriangle, write_triangle, "Trilu"},
    {Op::kDiagonal, write_diagonal, "Transpose, Reshape, Gather"},
    {Op::kMatrixDiag, write_matrix_diag, "Unsqueeze, Where"},
    {Op::kMatrixSetDiag, write_matrix_set_diag, "Unsqueeze, Where"},
    {Op::kAsStrided, write_as_strided, "Reshape, Gather"},
    {Op::kUnfold, write_unfold, "Gather, Transpose"},
    {Op::kRoll, write_roll, "Slice, Concat"},
    {Op::kRepeatInterleave, write_repeat_interleave, "Gather"},
};

}  // namespace

std::span<const OpWriter> slice_writers() { return kSlice; }

}  // namespace smelt::onnx
