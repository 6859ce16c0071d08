#include "ops/elementwise/dynamic_range.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/common/index.h"
#include "ops/common/infer.h"
#include "ops/common/real.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

struct Range {
  float min = 0, max = 0;
};

/// Smallest and largest value, widened to hold zero. NaN is ignored.
Range range_of(const float* x, int64_t n) {
  Range r;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i] < r.min) r.min = x[i];
    if (x[i] > r.max) r.max = x[i];
  }
  return r;
}

}  // namespace

int64_t DynamicRange::quantize(float x, int64_t lo, int64_t hi) const {
  const double r = std::nearbyint(inverse != 0 ? x * inverse : x / scale) + static_cast<double>(zero_point);
  if (r != r) return std::clamp<int64_t>(0, lo, hi);
  return static_cast<int64_t>(std::clamp(r, static_cast<double>(lo), static_cast<double>(hi)));
}

DynamicRange symmetric_range(const float* x, int64_t n, int64_t hi, double eps) {
  const Range r = range_of(x, n);
  const float largest = std::max(-r.min, r.max);
  DynamicRange d;
  d.scale = std::max(largest / static_cast<float>(hi), static_cast<float>(eps));
  if (!(d.scale > 0)) d.scale = 1;
  d.inverse = 0;
  return d;
}

DynamicRange asymmetric_range(const float* x, int64_t n, int64_t lo, int64_t hi, double eps) {
  const Range r = range_of(x, n);
  DynamicRange d;
  d.scale = std::max((r.max - r.min) / static_cast<float>(hi - lo), static_cast<float>(eps));
  if (!(d.scale > 0)) d.scale = 1;
  d.inverse = 0;
  const float zero = static_cast<float>(lo) - r.min / d.scale;
  d.zero_point = static_cast<int64_t>(std::nearbyint(std::clamp(zero, static_cast<float>(lo), static_cast<float>(hi))));
  return d;
}

DynamicRange balanced_range(const float* x, int64_t n, int64_t lo, int64_t hi, double eps) {
  const Range r = range_of(x, n);
  const auto qmin = static_cast<float>(lo), qmax = static_cast<float>(hi);
  DynamicRange d;
  d.inverse = r.min == r.max ? 1.0f : (qmax - qmin) / (r.max - r.min);
  if (eps > 0) d.inverse = std::min(d.inverse, 1.0f / static_cast<float>(eps));
  if (!std::isfinite(d.inverse)) d.inverse = 1;
  // Counting from the smallest value rounds halfway cases (rows with max = -min) as XNNPACK's unsigned activations do.
  const float steps = -r.min * d.inverse;
  d.zero_point = lo + (steps > 0 ? std::lrint(std::min(steps, qmax - qmin)) : 0);
  d.scale = 1.0f / d.inverse;
  return d;
}

Status infer_DynamicQuantize(InferContext& ctx) {
  const auto& attrs = ctx.attrs<DynamicQuantizeAttrs>();
  ValueType quantized = ctx.input(0);
  quantized.dtype = attrs.to;
  quantized.quant = nullptr;
  ValueType params = ValueType::tensor(DType::kF32, Shape{});
  if (attrs.per_row) {
    params.ranked = quantized.ranked;
    params.shape = quantized.shape;
    if (quantized.ranked && quantized.shape.rank() == 0) return InvalidModel("per-row quantization of a scalar");
    if (quantized.ranked) params.shape[quantized.shape.rank() - 1] = 1;
  }
  const DType scale = ctx.declared(1).dtype, zero_point = ctx.declared(2).dtype;
  ctx.set(0, std::move(quantized));
  params.dtype = scale == DType::kInvalid ? DType::kF32 : scale;
  ctx.set(1, params);
  params.dtype = zero_point == DType::kInvalid ? attrs.to : zero_point;
  ctx.set(2, params);
  return Ok();
}

Status reference_DynamicQuantize(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<DynamicQuantizeAttrs>();
  const Tensor& x = ctx.input(0);
  const std::vector<float> v = to_real_vector(x);
  const int64_t n = x.elements();
  const bool ranged = attrs.quant_min != attrs.quant_max;
  const int64_t lo = ranged ? attrs.quant_min : int_min(attrs.to), hi = ranged ? attrs.quant_max : int_max(attrs.to);
  const int64_t length = attrs.per_row && x.rank() > 0 ? x.shape().back() : n;
  const int64_t rows = attrs.per_row ? (length > 0 ? n / length : product(x.shape(), 0, x.rank() - 1)) : 1;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = v.data() + r * length;
    const DynamicRange range = attrs.symmetric      ? symmetric_range(row, length, hi, attrs.eps)
                               : attrs.xnnpack_rule ? balanced_range(row, length, lo, hi, attrs.eps)
                                                    : asymmetric_range(row, length, lo, hi, attrs.eps);
    if (ctx.wants(0))
      for (int64_t i = 0; i < length; ++i) set_int(ctx.output(0), r * length + i, range.quantize(row[i], lo, hi));
    if (ctx.wants(1)) set_double(ctx.output(1), r, range.scale);
    if (ctx.wants(2)) set_int(ctx.output(2), r, range.zero_point);
  }
  return Ok();
}

Status infer_FakeQuant(InferContext& ctx) { return same_as_input(ctx); }

Status reference_FakeQuant(KernelContext& ctx) {
  const auto& attrs = ctx.attrs<FakeQuantAttrs>();
  if (attrs.bits < 2 || attrs.bits > 16)
    return InvalidModel("fake quantization to ", attrs.bits, " bits, 2 to 16 expected");
  const float qmin = attrs.narrow_range ? 1.0f : 0.0f, qmax = static_cast<float>((1 << attrs.bits) - 1);
  const float scale = (attrs.max - attrs.min) / (qmax - qmin);
  if (!(scale > 0)) return InvalidModel("fake quantization range [", attrs.min, ", ", attrs.max, "] is empty");
  const float zero = std::clamp(std::round(qmin - attrs.min / scale), qmin, qmax);
  const float low = (qmin - zero) * scale, high = (qmax - zero) * scale, inverse = 1.0f / scale;
  std::vector<float> v = to_real_vector(ctx.input(0));
  for (float& f : v) {
    const float clamped = std::min(high, std::max(low, f));
    f = std::round((clamped - low) * inverse) * scale + low;
  }
  from_floats(v.data(), ctx.output(0));
  return Ok();
}

}  // namespace smelt
