#include <cstring>

#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"
#include "ops/shape/slice_end.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// A regular part of a tensor: entry i of dimension d is x's entry start[d] + i * step[d].
struct Part {
  Shape extent;
  int64_t start[Shape::kMaxRank] = {};
  int64_t step[Shape::kMaxRank] = {};
};

Part whole(const Shape& x) {
  Part p;
  p.extent = x;
  for (int i = 0; i < x.rank(); ++i) p.step[i] = 1;
  return p;
}

/// Entries of first, first + step, ... before `last` in the direction of step.
int64_t count_steps(int64_t first, int64_t last, int64_t step) {
  if (step > 0) return last > first ? (last - first - 1) / step + 1 : 0;
  // A step of INT64_MIN has no positive counterpart; its magnitude as unsigned has.
  const uint64_t magnitude = 0 - static_cast<uint64_t>(step);
  return first > last ? static_cast<int64_t>((static_cast<uint64_t>(first - last) - 1) / magnitude) + 1 : 0;
}

/// ONNX's clamping of one dimension of extent n.
void slice_dim(Part& p, int axis, int64_t n, int64_t start, int64_t end, int64_t step) {
  end = slice_end(end, step);
  auto clamp = [&](int64_t v, int64_t lo, int64_t hi) {
    if (v < 0) v += n;
    return std::clamp(v, lo, std::max(lo, hi));
  };
  p.step[axis] = step;
  if (step > 0) {
    p.start[axis] = clamp(start, 0, n);
    p.extent[axis] = count_steps(p.start[axis], clamp(end, 0, n), step);
  } else {
    p.start[axis] = clamp(start, 0, n - 1);
    p.extent[axis] = n == 0 ? 0 : count_steps(p.start[axis], clamp(end, -1, n - 1), step);
  }
}

/// The copy of a part of x to output 0.
Result<StridedCopies> part_copies(const NodeSpec& spec, const Part& p, const Shape& x, const Shape& out) {
  SMELT_TRY(expect_shape(spec.outputs[0], out));
  const Shape from = x.strides(), to = p.extent.strides();
  StridedCopy c;
  for (int i = 0; i < p.extent.rank(); ++i) {
    c.in_offset += p.extent[i] == 0 ? 0 : p.start[i] * from[i];
    c.dim(p.extent[i], p.extent[i] <= 1 ? 0 : p.step[i] * from[i], to[i]);
  }
  return one_copy(std::move(c));
}

/// Per-axis parameters of a slice: those of the entries that stay.
ValueType sliced_type(const ValueType& x, const Part& p) {
  ValueType t = like(x, p.extent);
  if (!x.quant || x.quant->kind != Quantization::Kind::kPerAxis || x.quant->scales.size() < 2) return t;
  const int axis = x.quant->axis;
  if (axis >= p.extent.rank() || !p.extent.is_static() || !x.shape.is_static() || p.extent[axis] == x.shape[axis])
    return t;
  auto q = std::make_shared<Quantization>(*x.quant);
  q->scales.clear();
  q->zero_points.clear();
  for (int64_t i = 0; i < p.extent[axis]; ++i) {
    const int64_t from = p.start[axis] + i * p.step[axis];
    q->scales.push_back(x.quant->scale(from));
    q->zero_points.push_back(x.quant->zero_point(from));
  }
  t.quant = std::move(q);
  return t;
}

struct SliceLists {
  std::vector<int64_t> starts, ends, axes, steps;
};

Result<Part> onnx_part(const Shape& x, const SliceLists& l) {
  if (l.ends.size() != l.starts.size() || (!l.axes.empty() && l.axes.size() != l.starts.size()) ||
      (!l.steps.empty() && l.steps.size() != l.starts.size()))
    return InvalidModel("starts, ends, axes and steps differ in length");
  std::vector<int64_t> order = l.axes;
  if (order.empty())
    for (size_t i = 0; i < l.starts.size(); ++i) order.push_back(static_cast<int64_t>(i));
  SMELT_ASSIGN(const auto axes, axes_of(order, x.rank()));
  Part p = whole(x);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t step = l.steps.empty() ? 1 : l.steps[i];
    if (step == 0) return InvalidModel("a step of 0");
    if (x[axes[i]] < 0) {
      if (step != 1 || l.starts[i] != 0 || l.ends[i] < INT32_MAX) p.extent[axes[i]] = -1;
      continue;
    }
    slice_dim(p, axes[i], x[axes[i]], l.starts[i], l.ends[i], step);
  }
  return p;
}

}  // namespace

Status infer_Slice(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType& x = ctx.input(0);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  auto axes = ctx.ints(3);
  auto starts = ctx.ints(1), ends = ctx.ints(2), steps = ctx.ints(4);
  if (starts && ends && (axes || !ctx.has(3)) && (steps || !ctx.has(4))) {
    SMELT_ASSIGN(const Part p,
                 onnx_part(x.shape, {std::move(*starts), std::move(*ends), axes.value_or(std::vector<int64_t>{}),
                                     steps.value_or(std::vector<int64_t>{})}));
    ctx.set(0, sliced_type(x, p));
    return Ok();
  }
  Shape out = x.shape;
  if (axes) {
    SMELT_ASSIGN(const auto cut, axes_of(*axes, out.rank()));
    for (int a : cut) out[a] = -1;
  } else {
    const auto n = ctx.has(3) ? std::nullopt : entries_of(ctx, 1);
    for (int i = 0; i < out.rank(); ++i)
      if (!n || i < *n) out[i] = -1;
  }
  ctx.set(0, like(x, out));
  return Ok();
}

Result<StridedCopies> copies_Slice(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  SliceLists l;
  SMELT_ASSIGN(l.starts, constant_ints(spec, 1));
  SMELT_ASSIGN(l.ends, constant_ints(spec, 2));
  SMELT_ASSIGN(l.axes, optional_ints(spec, 3));
  SMELT_ASSIGN(l.steps, optional_ints(spec, 4));
  SMELT_ASSIGN(const Part p, onnx_part(x, l));
  return part_copies(spec, p, x, p.extent);
}

namespace {

Result<Part> sized_part(const Shape& x, const std::vector<int64_t>& begin, const std::vector<int64_t>& size) {
  if (static_cast<int>(begin.size()) != x.rank() || static_cast<int>(size.size()) != x.rank())
    return InvalidModel("begin has ", begin.size(), " and size ", size.size(), " entries, the value has rank ",
                        x.rank());
  Part p = whole(x);
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t b = begin[static_cast<size_t>(i)], s = size[static_cast<size_t>(i)];
    if (b < 0 || s < -1) return InvalidModel("dimension ", i, ": begin ", b, ", size ", s);
    p.start[i] = b;
    p.extent[i] = s;
    if (x[i] < 0) continue;
    if (b > x[i]) return InvalidModel("dimension ", i, ": begin ", b, " is beyond the extent ", x[i]);
    if (s == -1) p.extent[i] = x[i] - b;
    if (p.extent[i] > x[i] - b)
      return InvalidModel("dimension ", i, ": begin ", b, " and size ", s, " reach beyond the extent ", x[i]);
  }
  return p;
}

}  // namespace

Status infer_SliceSize(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType& x = ctx.input(0);
  auto begin = ctx.ints(1), size = ctx.ints(2);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
  } else if (begin && size) {
    SMELT_ASSIGN(const Part p, sized_part(x.shape, *begin, *size));
    ctx.set(0, sliced_type(x, p));
  } else {
    Shape out = Shape::of_rank(x.shape.rank(), -1);
    if (size && static_cast<int>(size->size()) == out.rank())
      for (int i = 0; i < out.rank(); ++i) out[i] = std::max<int64_t>((*size)[static_cast<size_t>(i)], -1);
    ctx.set(0, like(x, out));
  }
  return Ok();
}

Result<StridedCopies> copies_SliceSize(const NodeSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  SMELT_ASSIGN(const Ints begin, constant_ints(spec, 1));
  SMELT_ASSIGN(const Ints size, constant_ints(spec, 2));
  SMELT_ASSIGN(const Part p, sized_part(x, begin, size));
  return part_copies(spec, p, x, p.extent);
}

namespace {

/// The first element of a slice that is one run of x; -1: it is several, or the slice is invalid.
int64_t contiguous_start(const Tensor& x, const Tensor& begin, const Tensor& y) {
  int64_t start = 0;
  bool whole = true;  // so far, from the innermost dimension on
  const Shape strides = x.shape().strides();
  for (int d = x.rank() - 1; d >= 0; --d) {
    const int64_t b = get_int(begin, d), extent = y.dim(d);
    if (b < 0 || b + extent > x.dim(d) || (!whole && extent != 1)) return -1;
    whole = whole && extent == x.dim(d);
    start += b * strides[d];
  }
  return start;
}

}  // namespace

/// Loops over time steps come here at every iteration, so a slice that is one run of x is copied without a loop nest.
Status reference_SliceSize(KernelContext& ctx) {
  const Tensor &x = ctx.input(0), &begin = ctx.input(1);
  Tensor& y = ctx.output(0);
  const int bits = bit_width(x.dtype());
  if (bits >= 8 && x.dtype() == y.dtype() && x.rank() == y.rank() && begin.elements() == x.rank() && y.elements() > 0) {
    if (const int64_t start = contiguous_start(x, begin, y); start >= 0) {
      std::memcpy(y.raw(), x.data<std::byte>() + start * (bits / 8), y.bytes());
      return Ok();
    }
  }
  return run_copies(ctx);
}

namespace {

/// A STRIDED_SLICE worked out: the part of x with new axes of 1 put in, and the shape with shrunk axes left out.
struct StridedPart {
  Part part;
  Shape x;    ///< x's shape with the new axes
  Shape out;  ///< without the shrunk axes
};

struct StridedLists {
  std::vector<int64_t> begin, end, strides;
};

/// One entry of the slice specification for a dimension of extent n.
Status strided_dim(const StridedSliceAttrs& a, const StridedLists& l, size_t i, int axis, int64_t n, Part& p) {
  const int64_t step = l.strides[i];
  const bool shrink = a.shrink_axis_mask >> i & 1;
  if (step == 0) return InvalidModel("a stride of 0");
  if (n < 0) {
    p.extent[axis] = shrink ? 1 : -1;
    return Ok();
  }
  auto bound = [&](int64_t v) {
    if (v < 0) v += n;
    return step > 0 ? std::clamp<int64_t>(v, 0, n) : std::clamp<int64_t>(v, -1, std::max<int64_t>(n - 1, -1));
  };
  p.step[axis] = step;
  int64_t start = l.begin[i];
  if (a.begin_mask >> i & 1) start = step > 0 ? 0 : n - 1;
  if (shrink) {
    const int64_t at = start < 0 ? start + n : start;
    if (at < 0 || at >= n) return InvalidModel("index ", start, " is out of range for dimension ", axis, " of ", n);
    p.start[axis] = at;
    p.extent[axis] = 1;
    return Ok();
  }
  const int64_t first = a.begin_mask >> i & 1 ? (step > 0 ? 0 : n - 1) : bound(start);
  int64_t end = l.end[i];
  if (a.offset && __builtin_add_overflow(end, first, &end)) return InvalidModel("an end of ", l.end[i]);
  const int64_t last = a.end_mask >> i & 1 ? (step > 0 ? n : -1) : bound(end);
  p.start[axis] = std::max<int64_t>(first, 0);
  p.extent[axis] = first < 0 ? 0 : count_steps(first, last, step);
  return Ok();
}

Result<StridedPart> strided_part(const Shape& x, const StridedSliceAttrs& a, const StridedLists& l) {
  const size_t entries = l.begin.size();
  if (l.end.size() != entries || l.strides.size() != entries)
    return InvalidModel("begin, end and strides have ", entries, ", ", l.end.size(), " and ", l.strides.size(),
                        " entries");
  if (entries > 32) return Unsupported("a slice of ", entries, " entries");
  int named = 0;  // dimensions of x that an entry other than the ellipsis takes
  for (size_t i = 0; i < entries; ++i)
    if (!(a.ellipsis_mask >> i & 1) && !(a.new_axis_mask >> i & 1)) ++named;
  if (named > x.rank()) return InvalidModel("a slice of ", named, " dimensions of a value of rank ", x.rank());
  StridedPart s;
  std::vector<bool> shrunk;
  int from = 0;
  bool ellipsis = false;
  auto add = [&](int64_t extent) -> Status {
    if (s.x.rank() == Shape::kMaxRank) return Unsupported("a rank above ", Shape::kMaxRank);
    s.part.start[s.x.rank()] = 0;
    s.part.step[s.x.rank()] = 1;
    s.x.push_back(extent);
    s.part.extent.push_back(extent);
    shrunk.push_back(false);
    return Ok();
  };
  auto rest = [&]() -> Status {
    for (int n = x.rank() - named; n > 0; --n) SMELT_TRY(add(x[from++]));
    return Ok();
  };
  for (size_t i = 0; i < entries; ++i) {
    if (a.ellipsis_mask >> i & 1) {
      if (ellipsis) return InvalidModel("a slice with two ellipses");
      ellipsis = true;
      SMELT_TRY(rest());
    } else if (a.new_axis_mask >> i & 1) {
      SMELT_TRY(add(1));
    } else {
      SMELT_TRY(add(x[from]));
      SMELT_TRY(strided_dim(a, l, i, s.x.rank() - 1, x[from++], s.part));
      shrunk.back() = a.shrink_axis_mask >> i & 1;
    }
  }
  if (!ellipsis) SMELT_TRY(rest());
  for (int i = 0; i < s.x.rank(); ++i)
    if (!shrunk[static_cast<size_t>(i)]) s.out.push_back(s.part.extent[i]);
  return s;
}

}  // namespace

Status infer_StridedSlice(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 4));
  const ValueType& x = ctx.input(0);
  const auto& a = ctx.attrs<StridedSliceAttrs>();
  auto begin = ctx.ints(1), end = ctx.ints(2), strides = ctx.ints(3);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  if (begin && end && strides) {
    SMELT_ASSIGN(const StridedPart s, strided_part(x.shape, a, {*begin, *end, *strides}));
    ctx.set(0, like(x, s.out));
    return Ok();
  }
  const auto entries = entries_of(ctx, 1);
  if (!entries || *entries > 32) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  // The rank and the untouched dimensions follow from the masks alone.
  const std::vector<int64_t> ones(static_cast<size_t>(*entries), 1);
  Shape unknown = Shape::of_rank(x.shape.rank(), -1);
  SMELT_ASSIGN(const StridedPart s, strided_part(unknown, a, {ones, ones, ones}));
  ctx.set(0, like(x, s.out));
  return Ok();
}

Result<StridedCopies> copies_StridedSlice(const NodeSpec& spec) {
  StridedLists l;
  SMELT_ASSIGN(l.begin, constant_ints(spec, 1));
  SMELT_ASSIGN(l.end, constant_ints(spec, 2));
  SMELT_ASSIGN(l.strides, constant_ints(spec, 3));
  SMELT_ASSIGN(const StridedPart s, strided_part(spec.inputs[0].shape, spec.attrs<StridedSliceAttrs>(), l));
  return part_copies(spec, s.part, s.x, s.out);
}

}  // namespace smelt
