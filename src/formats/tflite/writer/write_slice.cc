// Slices: STRIDED_SLICE where bounds or axes are known, SLICE with clamped bounds else.
#include <algorithm>
#include <numeric>

#include "formats/tflite/writer/op_writer.h"
#include "ops/shape/channels_perm.h"
#include "ops/shape/shape.h"
#include "ops/shape/slice_end.h"

namespace smelt::tflite {
namespace {

using Code = tfl::BuiltinOperator;

/// Entries of a list per dimension in the order channels last.
std::vector<int64_t> reordered(const std::vector<int64_t>& values, bool last) {
  if (!last) return values;
  std::vector<int64_t> out;
  for (const int64_t d : channels_last_perm(static_cast<int>(values.size())))
    out.push_back(values[static_cast<size_t>(d)]);
  return out;
}

/// ONNX's slices as STRIDED_SLICE: `begin` and `end` per dimension, with masks where an end is open.
struct SlicePlan {
  std::vector<int64_t> begin, end, stride;
  int32_t begin_mask = 0, end_mask = 0;
};

std::optional<SlicePlan> constant_slice(OpWriter& w, int rank) {
  const auto starts = w.ints(1), ends = w.ints(2);
  auto axes = w.has(3) ? w.ints(3) : std::nullopt;
  const auto steps = w.has(4) ? w.ints(4) : std::nullopt;
  if (!starts || !ends || (w.has(3) && !axes) || (w.has(4) && !steps)) return std::nullopt;
  if (!axes) {
    axes.emplace(starts->size());
    std::iota(axes->begin(), axes->end(), 0);
  }
  SlicePlan p{std::vector<int64_t>(static_cast<size_t>(rank), 0), std::vector<int64_t>(static_cast<size_t>(rank), 0),
              std::vector<int64_t>(static_cast<size_t>(rank), 1), (1 << rank) - 1, (1 << rank) - 1};
  for (size_t i = 0; i < axes->size(); ++i) {
    const int64_t d = wrapped_axis((*axes)[i], rank);
    if (d < 0 || d >= rank || i >= starts->size() || i >= ends->size()) return std::nullopt;
    const int64_t step = steps ? (*steps)[i] : 1, n = w.in_type(0).shape[static_cast<int>(d)];
    int64_t begin = (*starts)[i], end = slice_end((*ends)[i], step);
    const auto at = static_cast<size_t>(d);
    p.stride[at] = step;
    const int32_t bit = 1 << d;
    if (n >= 0) {
      begin = std::clamp<int64_t>(begin < 0 ? begin + n : begin, 0, step > 0 ? n : n - 1);
      end = std::clamp<int64_t>(end < 0 ? end + n : end, step > 0 ? 0 : -1, n);
      p.begin_mask &= ~bit;
      if (end >= 0) p.end_mask &= ~bit;
    } else {
      if (begin != 0 || step < 0) p.begin_mask &= ~bit;
      if (step < 0 && begin >= INT32_MAX) p.begin_mask |= bit;
      const bool open = step > 0 ? end >= INT32_MAX : end <= INT32_MIN;
      if (!open) p.end_mask &= ~bit;
    }
    p.begin[at] = begin;
    p.end[at] = std::max<int64_t>(end, p.end_mask & bit ? 0 : end);
  }
  return p;
}

int32_t reordered_mask(int32_t mask, int rank, bool last) {
  if (!last) return mask;
  int32_t out = 0;
  const auto perm = channels_last_perm(rank);
  for (int d = 0; d < rank; ++d)
    if (mask >> perm[static_cast<size_t>(d)] & 1) out |= 1 << d;
  return out;
}

/// The first axis of a slice along constant axes that follow each other, with constant steps forward; nullopt for
/// another. `count`: of the axes.
std::optional<int64_t> consecutive_axes(OpWriter& w, int rank, int64_t count) {
  if (const auto steps = w.has(4) ? w.ints(4) : std::vector<int64_t>{};
      !steps || std::ranges::any_of(*steps, [](int64_t v) { return v < 1; }))
    return std::nullopt;
  if (!w.has(3)) return 0;
  const auto axes = w.ints(3);
  if (!axes || axes->empty()) return std::nullopt;
  const int64_t first = wrapped_axis(axes->front(), rank);
  for (size_t i = 0; i < axes->size(); ++i)
    if (wrapped_axis((*axes)[i], rank) != first + static_cast<int64_t>(i)) return std::nullopt;
  return first >= 0 && first + count <= rank ? std::optional(first) : std::nullopt;
}

/// A slice of dynamic bounds from axis `first` on: the kernel clamps as ONNX does.
bool forward_slice(OpWriter& w, int64_t first, int64_t count) {
  SubgraphWriter& s = w.subgraph();
  const int64_t behind = w.rank(0) - first - count;
  // From dimension 0 on, those behind the bounds need no entries. Else each has one, void by the masks where there is
  // no bound.
  int margins = -1;
  if (first > 0) {
    Tensor margin(DType::kI32, Shape{1, 2});
    margin.data<int32_t>()[0] = static_cast<int32_t>(first);
    margin.data<int32_t>()[1] = static_cast<int32_t>(behind);
    margins = s.constant(std::move(margin));
  }
  const auto bounds = [&](int i) {
    const int given = w.in_i32(i);
    return first == 0 ? given : s.add(Code::PAD, {given, margins}, DType::kI32);
  };
  std::vector<int64_t> steps(static_cast<size_t>(first == 0 ? count : w.rank(0)), 1);
  if (w.has(4)) std::ranges::copy(*w.ints(4), steps.begin() + first);
  int64_t mask = (1 << first) - 1;
  if (first > 0)
    for (int64_t d = first + count; d < w.rank(0); ++d) mask |= 1 << d;
  int64_t end_mask = mask;
  if (const auto ends = w.ints(2))
    for (int64_t i = 0; i < count; ++i)
      if ((*ends)[static_cast<size_t>(i)] >= INT32_MAX) end_mask |= 1 << (first + i);
  const auto options = options_of<tfl::StridedSliceOptions>([=](auto& b) {
    return tfl::CreateStridedSliceOptions(b, static_cast<int32_t>(mask), static_cast<int32_t>(end_mask), 0, 0, 0,
                                          false);
  });
  return w.emit(Code::STRIDED_SLICE, {w.in(0), bounds(1), bounds(2), s.i32(steps)}, options);
}

/// A slice of a value of at least one dimension whose bounds are dynamic, clamped as ONNX does.
bool dynamic_slice(OpWriter& w) {
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  const ValueType& starts = w.in_type(1);
  if (!starts.ranked || starts.shape.rank() != 1) return false;
  const int64_t count = starts.shape[0];
  if (const auto first = count >= 0 ? consecutive_axes(w, rank, count) : std::nullopt)
    return forward_slice(w, *first, count);
  if (!w.has(3) && count < 0) return false;
  std::vector<int64_t> first(static_cast<size_t>(w.has(3) ? 0 : count));
  std::iota(first.begin(), first.end(), 0);
  const int axes = w.has(3) ? w.in_i32(3) : s.i32(first);
  const bool all = !w.has(3) && count == rank;
  const auto per_dimension = [&](int i, int64_t fill) {
    return all ? w.in_i32(i) : spread(w, w.in_i32(i), axes, rank, fill);
  };
  const int dims = dims_of(s, w.in(0)), zero = s.i32_scalar(0);
  const int step = w.has(4) ? per_dimension(4, 1) : -1;
  const auto clamped = [&](int v, int low, int high) {
    const int from_end = w.select({w.compare(Code::LESS, v, zero), w.add(v, dims), v});
    return w.binary(Code::MINIMUM, w.binary(Code::MAXIMUM, from_end, low), high);
  };
  int begin = clamped(per_dimension(1, 0), zero, dims), end = clamped(per_dimension(2, INT32_MAX), zero, dims);
  if (step < 0) return w.emit(Code::SLICE, {w.in(0), begin, w.binary(Code::MAXIMUM, w.sub(end, begin), zero)});
  // Backward, begins lie before the dimension's end, and an end before element 0 is -n - 1.
  const int backward = w.compare(Code::LESS, step, zero), one = s.i32_scalar(1);
  const int begins = per_dimension(1, 0), ends = per_dimension(2, INT32_MAX);
  begin = w.select(backward, clamped(begins, zero, w.sub(dims, one)), begin);
  const int low = clamped(ends, s.i32_scalar(-1), dims);
  const int front = w.select({w.compare(Code::LESS, low, zero), w.sub(low, dims), low});
  end = w.select(backward, front, end);
  return w.emit(Code::STRIDED_SLICE, {w.in(0), begin, end, step}, options_of<tfl::StridedSliceOptions>([](auto& b) {
                  return tfl::CreateStridedSliceOptions(b, 0, 0, 0, 0, 0, false);
                }));
}

}  // namespace

bool write_slice(OpWriter& w) {
  if (!same_type(w.in_type(0), w.out_type(0)) || w.rank(0) < 1) return false;
  SubgraphWriter& s = w.subgraph();
  const int rank = w.rank(0);
  const auto p = constant_slice(w, rank);
  if (!p) return dynamic_slice(w);
  const bool last = keeps_last(w);
  const int32_t begin_mask = reordered_mask(p->begin_mask, rank, last);
  const int32_t end_mask = reordered_mask(p->end_mask, rank, last);
  const auto options = options_of<tfl::StridedSliceOptions>(
      [=](auto& b) { return tfl::CreateStridedSliceOptions(b, begin_mask, end_mask, 0, 0, 0, false); });
  const std::vector<int> in{last ? w.in_last(0) : w.in(0), s.i32(reordered(p->begin, last)),
                            s.i32(reordered(p->end, last)), s.i32(reordered(p->stride, last))};
  return last ? w.emit_last(Code::STRIDED_SLICE, in, options) : w.emit(Code::STRIDED_SLICE, in, options);
}

bool write_strided_slice(OpWriter& w) {
  const auto& a = w.attrs<StridedSliceAttrs>();
  const auto mask = [](int64_t m) { return static_cast<int32_t>(m); };
  const auto options = options_of<tfl::StridedSliceOptions>([=](auto& b) {
    return tfl::CreateStridedSliceOptions(b, mask(a.begin_mask), mask(a.end_mask), mask(a.ellipsis_mask),
                                          mask(a.new_axis_mask), mask(a.shrink_axis_mask), a.offset);
  });
  return w.emit(Code::STRIDED_SLICE, {w.in(0), w.in_i32(1), w.in_i32(2), w.in_i32(3)}, options);
}

bool write_slice_size(OpWriter& w) { return w.emit(Code::SLICE, {w.in(0), w.in_i32(1), w.in_i32(2)}); }

}  // namespace smelt::tflite
