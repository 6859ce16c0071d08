#include <algorithm>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/shape/element_copy.h"
#include "ops/shape/loops.h"
#include "ops/shape/rules.h"
#include "ops/shape/shape.h"

namespace smelt {
namespace {

/// Entries added (negative: removed) before and behind each dimension.
struct Border {
  int64_t before[Shape::kMaxRank] = {};
  int64_t after[Shape::kMaxRank] = {};
};

constexpr int64_t kMaxBorder = int64_t{1} << 40;

Result<Border> border_of(const std::vector<int64_t>& pads, const std::optional<std::vector<int64_t>>& axes, bool pairs,
                         int rank) {
  std::vector<int> dims;
  if (axes) {
    SMELT_ASSIGN(dims, axes_of(*axes, rank));
  } else {
    for (int i = 0; i < rank; ++i) dims.push_back(i);
  }
  if (pads.size() != dims.size() * 2)
    return InvalidModel(pads.size(), " pads for ", dims.size(), " dimensions, ", dims.size() * 2, " expected");
  Border b;
  for (size_t i = 0; i < dims.size(); ++i) {
    b.before[dims[i]] = pads[pairs ? 2 * i : i];
    b.after[dims[i]] = pads[pairs ? 2 * i + 1 : dims.size() + i];
  }
  for (int64_t p : pads)
    if (p < -kMaxBorder || p > kMaxBorder) return LimitReached("a border of ", p, " entries");
  return b;
}

Result<Shape> padded_shape(const Shape& x, const Border& b) {
  Shape out = x;
  for (int i = 0; i < x.rank(); ++i) {
    if (x[i] < 0) continue;
    out[i] += b.before[i] + b.after[i];
    if (out[i] < 0)
      return InvalidModel("dimension ", i, " of ", x[i], " cannot be cropped by ", -(b.before[i] + b.after[i]));
  }
  return out;
}

/// The entry of x that the padded position p (counted from x's first entry) shows; -1: the border's value.
int64_t source_entry(PadAttrs::Mode mode, int64_t p, int64_t lo, int64_t hi) {
  if (p >= lo && p < hi) return p;
  const int64_t n = hi - lo;
  auto wrap = [](int64_t v, int64_t period) { return (v % period + period) % period; };
  p -= lo;
  switch (mode) {
    case PadAttrs::Mode::kConstant:
      return -1;
    case PadAttrs::Mode::kEdge:
      return lo + std::clamp<int64_t>(p, 0, n - 1);
    case PadAttrs::Mode::kWrap:
      return lo + wrap(p, n);
    case PadAttrs::Mode::kReflect: {
      if (n == 1) return lo;
      const int64_t q = wrap(p, 2 * (n - 1));
      return lo + (q < n ? q : 2 * (n - 1) - q);
    }
    case PadAttrs::Mode::kSymmetric: {
      const int64_t q = wrap(p, 2 * n);
      return lo + (q < n ? q : 2 * n - 1 - q);
    }
  }
  return -1;
}

/// For each dimension, the entry of x behind every entry of y (-1: border).
std::vector<std::vector<int64_t>> entry_tables(const Shape& x, const Shape& y, const Border& b, PadAttrs::Mode mode) {
  std::vector<std::vector<int64_t>> tables;
  for (int d = 0; d < y.rank(); ++d) {
    std::vector<int64_t> table(static_cast<size_t>(y[d]));
    const int64_t lo = std::max<int64_t>(0, -b.before[d]), hi = x[d] - std::max<int64_t>(0, -b.after[d]);
    for (int64_t i = 0; i < y[d]; ++i) table[static_cast<size_t>(i)] = source_entry(mode, i - b.before[d], lo, hi);
    tables.push_back(std::move(table));
  }
  return tables;
}

/// Copies the rows (runs along the last dimension) of y from x by the tables.
void copy_by_tables(const Tensor& x, Tensor& y, const std::vector<std::vector<int64_t>>& tables, const Tensor& value) {
  const MoveSource source(x), border(value);
  MoveTarget target(y);
  const int rank = y.rank();
  if (rank == 0) {
    copy_run(source, 0, target, 0, 1);
    return;
  }
  const Shape strides = x.shape().strides();
  const auto& last = tables.back();
  const auto row = static_cast<int64_t>(last.size());
  int64_t at = 0;
  const Shape outer(y.shape().dims().first(static_cast<size_t>(rank - 1)));
  for_each_index(outer, [&](const int64_t* index) {
    int64_t base = 0;
    bool inside = true;
    for (int d = 0; d + 1 < rank; ++d) {
      const int64_t e = tables[static_cast<size_t>(d)][static_cast<size_t>(index[d])];
      inside = inside && e >= 0;
      base += e * strides[d];
    }
    for (int64_t i = 0; i < row;) {
      const int64_t e = inside ? last[static_cast<size_t>(i)] : -1;
      int64_t n = 1;
      if (e < 0) {
        while (i + n < row && (!inside || last[static_cast<size_t>(i + n)] < 0)) ++n;
        fill_run(border, 0, target, at + i, n);
      } else {
        while (i + n < row && last[static_cast<size_t>(i + n)] == e + n) ++n;
        copy_run(source, base + e, target, at + i, n);
      }
      i += n;
    }
    at += row;
    return true;
  });
}

/// What stays of x, to its place in y.
std::optional<CopyLoop> inner_loop(const Shape& x, const Shape& y, const Border& b) {
  const Shape from = x.strides(), to = y.strides();
  CopyLoop loop;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t lo = std::max<int64_t>(0, -b.before[i]), hi = x[i] - std::max<int64_t>(0, -b.after[i]);
    if (hi <= lo) return std::nullopt;
    loop.dim(hi - lo, from[i], to[i]);
    loop.from_offset += lo * from[i];
    loop.to_offset += (lo + b.before[i]) * to[i];
  }
  return loop;
}

/// A border of one value: y filled, what stays of x copied into it as a block.
void copy_into_border(const Tensor& x, Tensor& y, const Border& b, const Tensor& value) {
  const MoveSource source(x), border(value);
  MoveTarget target(y);
  fill_run(border, 0, target, 0, y.elements());
  if (auto loop = inner_loop(x.shape(), y.shape(), b)) copy(source, target, std::move(*loop));
}

/// Whether every dimension keeps an entry that a border can repeat.
Status has_entries(const Shape& x, const Border& b) {
  for (int i = 0; i < x.rank(); ++i)
    if (x[i] - std::max<int64_t>(0, -b.before[i]) - std::max<int64_t>(0, -b.after[i]) <= 0)
      return InvalidInput("dimension ", i, " of shape ", x.str(), " has no entries to pad with");
  return Ok();
}

Status pad_tensor(const Tensor& x, Tensor& y, const Border& b, PadAttrs::Mode mode, const Tensor& value) {
  SMELT_ASSIGN(const Shape want, padded_shape(x.shape(), b));
  SMELT_TRY(expect_shape(y, want));
  if (y.elements() == 0) return Ok();
  if (mode == PadAttrs::Mode::kConstant) {
    copy_into_border(x, y, b, value);
    return Ok();
  }
  SMELT_TRY(has_entries(x.shape(), b));
  copy_by_tables(x, y, entry_tables(x.shape(), y.shape(), b, mode), value);
  return Ok();
}

}  // namespace

Result<std::optional<CopyLoop>> pad_loop(const Shape& x, const Ints& pads, const std::optional<Ints>& axes, bool pairs,
                                         Shape& y) {
  SMELT_ASSIGN(const Border b, border_of(pads, axes, pairs, x.rank()));
  SMELT_ASSIGN(y, padded_shape(x, b));
  return inner_loop(x, y, b);
}

Result<std::vector<Ints>> pad_tables(const Shape& x, const Ints& pads, const std::optional<Ints>& axes,
                                     const PadAttrs& a) {
  SMELT_ASSIGN(const Border b, border_of(pads, axes, a.pairs, x.rank()));
  SMELT_ASSIGN(const Shape y, padded_shape(x, b));
  SMELT_TRY(has_entries(x, b));
  return entry_tables(x, y, b, a.mode);
}

Status infer_Pad(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const ValueType& x = ctx.input(0);
  auto pads = ctx.ints(1), axes = ctx.ints(3);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
  } else if (!pads || (ctx.has(3) && !axes)) {
    ctx.set(0, like(x, Shape::of_rank(x.shape.rank(), -1)));
  } else {
    SMELT_ASSIGN(const Border b, border_of(*pads, axes, ctx.attrs<PadAttrs>().pairs, x.shape.rank()));
    SMELT_ASSIGN(const Shape out, padded_shape(x.shape, b));
    ctx.set(0, like(x, out));
  }
  return Ok();
}

Status reference_Pad(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  const auto& a = ctx.attrs<PadAttrs>();
  std::optional<std::vector<int64_t>> axes;
  if (ctx.has(3)) axes = ints_of(ctx.input(3));
  SMELT_ASSIGN(const Border b, border_of(ints_of(ctx.input(1)), axes, a.pairs, x.rank()));
  Tensor& y = ctx.output(0);
  Tensor value = zero_like(y.quant() ? y : x);
  if (ctx.has(2)) {
    value = ctx.input(2);
    if (value.dtype() != x.dtype())
      return InvalidInput("the border's value is ", to_string(value.dtype()), ", ", to_string(x.dtype()), " expected");
    if (value.elements() < 1) return InvalidInput("the border's value is empty");
  }
  return pad_tensor(x, y, b, a.mode, value);
}

namespace {

Result<Shape> cropped_shape(const Shape& x, const std::vector<int64_t>& sizes, const std::vector<int>& axes) {
  if (sizes.size() != axes.size()) return InvalidModel(sizes.size(), " sizes for ", axes.size(), " axes");
  Shape out = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > kMaxBorder) return InvalidModel("a size of ", sizes[i]);
    out[axes[i]] = sizes[i];
  }
  return out;
}

}  // namespace

Status infer_CenterCropPad(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const ValueType& x = ctx.input(0);
  auto sizes = ctx.ints(1), axes = ctx.ints(2);
  if (!x.ranked) {
    ctx.set(0, like_unranked(x));
    return Ok();
  }
  Shape out = Shape::of_rank(x.shape.rank(), -1);
  if (axes) {
    SMELT_ASSIGN(const auto dims, axes_of(*axes, x.shape.rank()));
    out = x.shape;
    for (int d : dims) out[d] = -1;
    if (sizes) {
      SMELT_ASSIGN(out, cropped_shape(x.shape, *sizes, dims));
    }
  }
  ctx.set(0, like(x, out));
  return Ok();
}

Status reference_CenterCropPad(KernelContext& ctx) {
  const Tensor& x = ctx.input(0);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const auto axes, axes_of(ints_of(ctx.input(2)), x.rank()));
  SMELT_ASSIGN(const Shape want, cropped_shape(x.shape(), ints_of(ctx.input(1)), axes));
  SMELT_TRY(expect_shape(y, want));
  Border b;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t grow = want[i] - x.dim(i);
    // Odd differences: one more entry is cropped or added at the end.
    b.before[i] = grow / 2;
    b.after[i] = grow - b.before[i];
  }
  return pad_tensor(x, y, b, PadAttrs::Mode::kConstant, zero_like(x));
}

}  // namespace smelt
