#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/common/operands.h"
#include "ops/resize/integer.h"
#include "ops/resize/plan.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Reads Resize's optional inputs; `known` is false when one that matters has no contents yet.
template <class Context, class Get>
ResizeRequest request_of(const Context& ctx, Get&& get, bool& complete) {
  const Tensor* contents[4] = {};
  complete = true;
  for (int i = 1; i <= 3; ++i) {
    if (!ctx.has(i)) continue;
    contents[i] = get(i);
    complete = complete && contents[i];
  }
  return resize_request(contents[1], contents[2], contents[3]);
}

/// One separable pass: dimension `axis` of `shape` is replaced by the taps' length.
template <class T, class Sum>
void resample(const T* in, const Shape& shape, int axis, const AxisTaps& t, T* out) {
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  const int64_t length = static_cast<int64_t>(t.begin.size()) - 1;
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < length; ++i) {
      const int64_t b = t.begin[static_cast<size_t>(i)], e = t.begin[static_cast<size_t>(i) + 1];
      T* to = out + (o * length + i) * inner;
      if (e == b + 1 && t.weight[static_cast<size_t>(b)] == 1) {
        std::copy_n(in + (o * shape[axis] + t.index[static_cast<size_t>(b)]) * inner, inner, to);
        continue;
      }
      std::fill_n(to, inner, T{});
      for (int64_t k = b; k < e; ++k) {
        const T* from = in + (o * shape[axis] + t.index[static_cast<size_t>(k)]) * inner;
        const Sum w = static_cast<Sum>(t.weight[static_cast<size_t>(k)]);
        for (int64_t j = 0; j < inner; ++j) to[j] += static_cast<T>(w * static_cast<Sum>(from[j]));
      }
    }
}

/// All passes, then the extrapolation value where a coordinate was outside.
template <class T>
Result<const T*> resample_all(KernelContext& ctx, const ResizeAttrs& a, const std::vector<ResizeAxis>& axes,
                              const T* values, Shape shape) {
  std::vector<AxisTaps> taps;
  for (const ResizeAxis& d : axes) {
    SMELT_ASSIGN(AxisTaps t, axis_taps(a, d));
    taps.push_back(std::move(t));
  }
  for (size_t i = axes.size(); i-- > 0;) {
    if (taps[i].identity && axes[i].in == axes[i].out) continue;
    SMELT_TRY(ctx.tick());
    Shape next = shape;
    next[axes[i].axis] = axes[i].out;
    SMELT_ASSIGN(const int64_t n, next.checked_elements());
    SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, n));
    resample<T, T>(values, shape, axes[i].axis, taps[i], out);
    values = out;
    shape = next;
  }
  if (a.coord != ResizeAttrs::Coord::kTfCropAndResize) return values;
  const int64_t n = shape.elements();
  SMELT_ASSIGN(T* const out, scratch_array<T>(ctx, n));
  std::copy_n(values, n, out);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t inner = 1;
    for (int d = axes[i].axis + 1; d < shape.rank(); ++d) inner *= shape[d];
    for (int64_t j = 0; j < n; ++j)
      if (taps[i].outside[static_cast<size_t>(j / inner % axes[i].out)]) out[j] = static_cast<T>(a.extrapolation);
  }
  return static_cast<const T*>(out);
}

template <class T>
Status resize_as(KernelContext& ctx, const ResizeAttrs& a, const std::vector<ResizeAxis>& axes) {
  const Tensor& x = ctx.input(0);
  SMELT_ASSIGN(const T* const xs, operand<T>(ctx, x));
  SMELT_ASSIGN(const T* const ys, resample_all<T>(ctx, a, axes, xs, x.shape()));
  Tensor& y = ctx.output(0);
  if constexpr (std::is_floating_point_v<T>) {
    if (is_integer(y.dtype()) && !y.quant()) {
      const auto lo = static_cast<double>(int_min(y.dtype())), hi = static_cast<double>(int_max(y.dtype()));
      SMELT_ASSIGN(double* const clamped, scratch_array<double>(ctx, y.elements()));
      for (int64_t i = 0, n = y.elements(); i < n; ++i) {
        const double v = static_cast<double>(ys[i]);
        clamped[i] = std::clamp(a.antialias ? std::nearbyint(v) : v, lo, hi);
      }
      from_doubles(clamped, y);
      return Ok();
    }
  }
  store(ys, y);
  return Ok();
}

}  // namespace

Status infer_Resize(InferContext& ctx) {
  const auto& a = ctx.attrs<ResizeAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(x.dtype);
  if (x.quant) y.quant = x.quant;
  if (ctx.declared(0).quant && ctx.declared(0).dtype != DType::kInvalid) y.dtype = ctx.declared(0).dtype;
  if (x.ranked) {
    bool complete = true;
    const ResizeRequest r = request_of(
        ctx, [&](int i) { return ctx.constant(i); }, complete);
    SMELT_ASSIGN(const auto axes, plan_resize(a, x.shape, complete ? r : ResizeRequest{}));
    y.ranked = true;
    y.shape = x.shape;
    for (const ResizeAxis& d : axes) y.shape[d.axis] = d.out;
    if (complete && r.scales.empty() && r.sizes.empty()) return InvalidModel("Resize has neither scales nor sizes");
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_Resize(KernelContext& ctx) {
  const auto& a = ctx.attrs<ResizeAttrs>();
  const Tensor& x = ctx.input(0);
  const Tensor& y = ctx.output(0);
  bool complete = true;
  const ResizeRequest r = request_of(
      ctx, [&](int i) { return &ctx.input(i); }, complete);
  SMELT_ASSIGN(const auto axes, plan_resize(a, x.shape(), r));
  if (y.elements() == 0) return Ok();
  const bool same_type = x.dtype() == y.dtype();
  if (const auto arithmetic = integer_resize(a, x.dtype(), y.dtype(), axes); arithmetic != IntegerResize::kNone)
    return resize_in_integers(ctx, a, axes, arithmetic);
  const bool moves = a.mode == ResizeAttrs::Mode::kNearest && a.coord != ResizeAttrs::Coord::kTfCropAndResize;
  if (moves && same_type && (is_integer(x.dtype()) || x.dtype() == DType::kBool))
    return resize_as<uint64_t>(ctx, a, axes);
  return x.dtype() == DType::kF64 || (is_integer(x.dtype()) && !x.quant()) ? resize_as<double>(ctx, a, axes)
                                                                           : resize_as<float>(ctx, a, axes);
}

}  // namespace smelt
