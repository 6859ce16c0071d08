#include <algorithm>

#include "base/error.h"
#include "ops/core/node_spec.h"
#include "ops/core/op.h"
#include "ops/shape/copies.h"
#include "ops/shape/element_copy.h"
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

/// The entry of x that position p (counted from x's first entry) shows in a mode that repeats x, of whose dimension
/// [lo, hi) is left.
int64_t source_entry(PadAttrs::Mode mode, int64_t p, int64_t lo, int64_t hi) {
  if (p >= lo && p < hi) return p;
  const int64_t n = hi - lo;
  auto wrap = [](int64_t v, int64_t period) { return (v % period + period) % period; };
  p -= lo;
  switch (mode) {
    case PadAttrs::Mode::kConstant:
      break;
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

/// Entries [lo, hi) of a dimension of x that are left when negative borders crop it.
struct Kept {
  int64_t lo, hi;
};
Kept kept_entries(const Shape& x, const Border& b, int d) {
  return {std::max<int64_t>(0, -b.before[d]), x[d] - std::max<int64_t>(0, -b.after[d])};
}

/// The runs of dimension d; none where everything is border.
std::vector<DimRun> padded_runs(const Shape& x, int64_t extent, const Border& b, int d, PadAttrs::Mode mode) {
  const auto [lo, hi] = kept_entries(x, b, d);
  if (mode == PadAttrs::Mode::kConstant)
    return hi <= lo ? std::vector<DimRun>{} : std::vector<DimRun>{neighbours(lo, lo + b.before[d], hi - lo)};
  if (b.before[d] <= 0 && b.after[d] <= 0) return {neighbours(lo, 0, hi - lo)};
  Ints table(static_cast<size_t>(extent));
  for (int64_t i = 0; i < extent; ++i) table[static_cast<size_t>(i)] = source_entry(mode, i - b.before[d], lo, hi);
  return dim_runs(table);
}

/// Fails unless every dimension keeps an entry that a border can repeat.
Status has_entries(const Shape& x, const Border& b) {
  for (int i = 0; i < x.rank(); ++i)
    if (const auto [lo, hi] = kept_entries(x, b, i); hi <= lo)
      return InvalidInput("dimension ", i, " of shape ", x.str(), " has no entries to pad with");
  return Ok();
}

/// Appends what y shows of x; the border's value is there already.
Status add_padded(StridedCopies& all, const NodeSpec& spec, const Border& b, PadAttrs::Mode mode) {
  const Shape &x = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  SMELT_ASSIGN(const Shape want, padded_shape(x, b));
  SMELT_TRY(expect_shape(spec.outputs[0], want));
  if (y.elements() == 0) return Ok();
  if (mode != PadAttrs::Mode::kConstant) SMELT_TRY(has_entries(x, b));
  std::vector<std::vector<DimRun>> dims;
  for (int d = 0; d < y.rank(); ++d) dims.push_back(padded_runs(x, y[d], b, d, mode));
  add_separable(all, x, y, dims);
  return Ok();
}

}  // namespace

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

Result<StridedCopies> copies_Pad(const NodeSpec& spec) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  const auto& a = spec.attrs<PadAttrs>();
  std::optional<Ints> axes;
  if (spec.has(3)) {
    SMELT_ASSIGN(axes, constant_ints(spec, 3));
  }
  SMELT_ASSIGN(const Ints pads, constant_ints(spec, 1));
  SMELT_ASSIGN(const Border b, border_of(pads, axes, a.pairs, x.shape.rank()));
  StridedCopies all;
  if (a.mode == PadAttrs::Mode::kConstant && spec.has(2)) {
    const ValueType& value = spec.inputs[2];
    if (value.dtype != x.dtype)
      return InvalidInput("the border's value is ", to_string(value.dtype), ", ", to_string(x.dtype), " expected");
    if (value.shape.elements() < 1) return InvalidInput("the border's value is empty");
    if (spec.constant(2))
      all.fill = *spec.constant(2);
    else
      all.copies.push_back(broadcast_copy(spec, 2));
  } else if (a.mode == PadAttrs::Mode::kConstant) {
    all.fill = zero_like(type_only(y.quant ? y : x));
  }
  SMELT_TRY(add_padded(all, spec, b, a.mode));
  return all;
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

Result<StridedCopies> copies_CenterCropPad(const NodeSpec& spec) {
  const ValueType& x = spec.inputs[0];
  SMELT_ASSIGN(const Ints sizes, constant_ints(spec, 1));
  SMELT_ASSIGN(const Ints dims, constant_ints(spec, 2));
  SMELT_ASSIGN(const auto axes, axes_of(dims, x.shape.rank()));
  SMELT_ASSIGN(const Shape want, cropped_shape(x.shape, sizes, axes));
  Border b;
  for (int i = 0; i < x.shape.rank(); ++i) {
    const int64_t grow = want[i] - x.shape[i];
    // Odd differences: one more entry is cropped or added at the end.
    b.before[i] = grow / 2;
    b.after[i] = grow - b.before[i];
  }
  StridedCopies all;
  all.fill = zero_like(type_only(x));
  SMELT_TRY(add_padded(all, spec, b, PadAttrs::Mode::kConstant));
  return all;
}

}  // namespace smelt
