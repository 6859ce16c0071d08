// Quantization and what undoes it as ATen calls.
#include <algorithm>
#include <cmath>

#include "formats/executorch/writer/call_writer.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::executorch {
namespace {

struct IntegerRange {
  double lo, hi;
};

/// The range that integers of a quantization have; equal limits mean that of the type.
IntegerRange limits_of(DType type, int64_t min, int64_t max) {
  if (min != max) return {static_cast<double>(min), static_cast<double>(max)};
  return {static_cast<double>(int_min(type)), static_cast<double>(int_max(type))};
}

/// Scales (input 1) or zero points (input 2) of a QuantizeLinear or DequantizeLinear as float32 that broadcasts with
/// input 0; nullopt if absent or of a shape that does not fit.
std::optional<int> quant_operand(CallWriter& w, int i, const QuantizeLinearAttrs& a) {
  if (!w.has(i)) return std::nullopt;
  PlanWriter& p = w.plan();
  const int v = w.cast(w.in(i), DType::kF32);
  const Shape x = w.in_type(0).shape, given = w.shape(v);
  if (given.elements() == 1) return p.reshape(v, Shape{});
  const int axis = static_cast<int>(axis_of(a.axis, x.rank()));
  if (axis < 0 || axis >= x.rank()) return std::nullopt;
  if (a.block == 0) {
    if (given.rank() != 1 || given[0] != x[axis]) return std::nullopt;
    Shape s = Shape::of_rank(x.rank(), 1);
    s[axis] = x[axis];
    return p.reshape(v, s);
  }
  // One entry for `block` elements along the axis.
  if (given.rank() != x.rank() || given[axis] * a.block < x[axis]) return std::nullopt;
  Shape open = given;
  open.insert(axis + 1, 1);
  Shape wide = open, whole = given;
  wide[axis + 1] = a.block;
  whole[axis] *= a.block;
  const int size = p.integers({wide.begin(), wide.end()}), implicit = p.boolean(false);
  const int spread = p.call("aten::expand_copy", "out", {p.reshape(v, open), size, implicit}, DType::kF32, wide);
  return sliced(w, p.reshape(spread, whole), axis, 0, x[axis], 1);
}

/// Steps rounded half to even, zero point added (-1: none), clamped, as integers.
int rounded(CallWriter& w, int steps, int zero, const IntegerRange& limits, DType to) {
  int y = w.unary("round", steps);
  if (zero >= 0) y = w.add(y, zero);
  const int lo = w.plan().real(limits.lo), hi = w.plan().real(limits.hi);
  return w.cast(w.call("aten::clamp", {y, lo, hi}), to);
}

}  // namespace

bool call_quantize(CallWriter& w) { return w.out_type(0).quant && w.out(0, w.real(0)); }
bool call_dequantize(CallWriter& w) {
  if (!w.in_type(0).quant && w.in_type(0).dtype != w.out_type(0).dtype)
    return w.out(0, w.cast(w.in(0), w.out_type(0).dtype));
  return w.out(0, w.cast(w.real(0), w.out_type(0).dtype));
}

bool call_quantize_linear(CallWriter& w) {
  const auto& a = w.attrs<QuantizeLinearAttrs>();
  const QuantPtr q = formats::linear_quant(w, true);
  const DType to = w.out_type(0).dtype;
  if (!is_integer(to) || w.in_type(0).quant) return false;
  if (is_per_tensor(q) && bit_width(to) == 8) return w.out(0, w.quantized(w.in(0), to, q, a.quant_min, a.quant_max));
  if (bit_width(to) < 8) return false;
  const int x = w.cast(w.in(0), DType::kF32);
  const auto scale = quant_operand(w, 1, a), zero = quant_operand(w, 2, a);
  if (!scale || (w.has(2) && !zero)) return false;
  const IntegerRange limits = limits_of(to, a.quant_min, a.quant_max);
  const int steps = a.reciprocal ? w.mul(x, w.unary("reciprocal", *scale)) : w.div(x, *scale);
  return w.out(0, rounded(w, steps, zero ? *zero : -1, limits, to));
}

bool call_dequantize_linear(CallWriter& w) {
  const QuantPtr q = formats::linear_quant(w);
  if (w.in_type(0).quant || !is_integer(w.in_type(0).dtype)) return false;
  if (!q || (!w.constant(0) && bit_width(w.in_type(0).dtype) > 8) || q->kind != Quantization::Kind::kPerTensor) {
    const auto& a = w.attrs<QuantizeLinearAttrs>();
    const auto scale = quant_operand(w, 1, a), zero = quant_operand(w, 2, a);
    if (!scale || (w.has(2) && !zero)) return false;
    int x = w.cast(w.in(0), DType::kF32);
    if (zero) x = w.sub(x, *zero);
    return w.out(0, w.cast(w.mul(x, *scale), w.out_type(0).dtype));
  }
  if (w.constant(0) && bit_width(w.in_type(0).dtype) > 16) {
    Tensor typed = *w.constant(0), real(DType::kF32, typed.shape());
    typed.set_quant(q);
    dequantize(typed, real.data<float>());
    return w.out(0, w.cast(w.plan().constant(real), w.out_type(0).dtype));
  }
  return w.out(0, w.cast(w.dequantized(w.in(0), q, w.in_type(0).dtype), w.out_type(0).dtype));
}

namespace {

/// Parameters chosen from the smallest and largest value over `axes`, which are kept if `keep`; the zero point is
/// float32.
struct RunTimeParams {
  int scale, zero;
};

RunTimeParams run_time_params(CallWriter& w, int x, const std::vector<int64_t>& axes, bool keep,
                              const IntegerRange& limits) {
  const int none = w.number_like(x, 0);
  const int low = w.binary("minimum", axes.empty() ? x : w.reduce("amin", x, axes, keep), none);
  const int high = w.binary("maximum", axes.empty() ? x : w.reduce("amax", x, axes, keep), none);
  const int width = w.div({w.sub(high, low), w.number_like(x, limits.hi - limits.lo)});
  const int scale = w.select({w.compare("gt", width, none), width, w.number_like(x, 1)});
  const int zero = w.sub({w.number_like(low, limits.lo), w.div(low, scale)});
  return {scale, w.unary("round", w.clamp(zero, limits.lo, limits.hi))};
}

std::vector<int64_t> axes_from(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t d = first; d < rank; ++d) axes.push_back(d);
  return axes;
}

}  // namespace

int quantized_at_run_time(CallWriter& w, int x, DType to) {
  const IntegerRange limits = limits_of(to, 0, 0);
  const RunTimeParams q = run_time_params(w, x, axes_from(0, w.shape(x).rank()), false, limits);
  const int steps = w.clamp(w.add(w.unary("round", w.div(x, q.scale)), q.zero), limits.lo, limits.hi);
  return w.mul(w.sub(steps, q.zero), q.scale);
}

/// Parameters chosen from the smallest and largest value of the tensor, or of each row.
bool call_dynamic_quantize(CallWriter& w) {
  const auto& a = w.attrs<DynamicQuantizeAttrs>();
  const int rank = w.rank(0);
  if (a.symmetric || a.xnnpack_rule || a.eps != 0 || bit_width(a.to) != 8 || (a.per_row && rank == 0)) return false;
  PlanWriter& p = w.plan();
  const IntegerRange limits = limits_of(a.to, a.quant_min, a.quant_max);
  const int x = w.cast(w.real(0), DType::kF32);
  const auto [scale, zero] = run_time_params(w, x, axes_from(a.per_row ? rank - 1 : 0, rank), a.per_row, limits);
  if (w.wants(0) && !w.out(0, rounded(w, w.div(x, scale), zero, limits, a.to))) return false;
  if (w.wants(1) && !w.out(1, w.cast(p.reshape(scale, w.out_type(1).shape), w.out_type(1).dtype))) return false;
  return !w.wants(2) || w.out(2, w.cast(p.reshape(zero, w.out_type(2).shape), w.out_type(2).dtype));
}

bool call_fake_quant(CallWriter& w) {
  const auto& a = w.attrs<FakeQuantAttrs>();
  if (a.bits < 2 || a.bits > 16 || w.in_type(0).dtype != DType::kF32) return false;
  const float lowest = a.narrow_range ? 1.0f : 0.0f, highest = static_cast<float>((1 << a.bits) - 1);
  const float scale = (a.max - a.min) / (highest - lowest);
  if (!(scale > 0)) return false;
  const float zero = std::clamp(std::round(lowest - a.min / scale), lowest, highest);
  const float low = (lowest - zero) * scale, high = (highest - zero) * scale;
  const int lo = w.plan().real(low), hi = w.plan().real(high);
  const int x = w.call("aten::clamp", {w.in(0), lo, hi});
  const int steps = w.mul({w.sub(x, w.number_like(x, low)), w.number_like(x, 1.0f / scale)});
  // Steps are not negative: halves away from 0 are halves up.
  const int whole = w.unary("floor", w.add(steps, w.number_like(x, 0.5)));
  return w.out(0, w.add({w.mul(whole, w.number_like(x, scale)), w.number_like(x, low)}));
}

/// Products of integers as products of float32, or of float64 where sums of float32 are not exact.
bool call_integer_product(CallWriter& w) {
  const bool conv = w.node().op == Op::kConvInteger;
  const Shape b = w.in_type(1).shape;
  if (b.rank() < 2 || w.in_type(0).quant || w.in_type(1).quant) return false;
  int64_t depth = conv ? 1 : b[b.rank() - 2];
  for (int d = 1; conv && d < b.rank(); ++d) depth *= b[d];
  const DType type = depth > 256 ? DType::kF64 : DType::kF32;
  const auto operand = [&](int i, int axis) {
    int x = w.cast(w.in(i), type);
    if (!w.has(i + 2)) return x;
    int zero = w.cast(w.in(i + 2), type);
    if (w.shape(zero).rank() == 1 && w.shape(zero)[0] > 1) {
      Shape s = Shape::of_rank(w.shape(x).rank(), 1);
      s[axis < 0 ? s.rank() + axis : axis] = w.shape(zero)[0];
      zero = w.plan().reshape(zero, s);
    } else if (w.shape(zero).elements() == 1) {
      zero = w.plan().reshape(zero, Shape{});
    }
    return w.sub(x, zero);
  };
  const int x = operand(0, conv ? 1 : -2), y = operand(1, conv ? 0 : -1);
  const auto z = conv ? convolved(w, x, y) : product(w, x, y);
  return z && w.out(0, w.cast(*z, w.out_type(0).dtype));
}

}  // namespace smelt::executorch
