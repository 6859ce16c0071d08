#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "ops/common/operands.h"
#include "ops/pool/pool.h"
#include "tensor/numeric.h"

namespace smelt {

Result<Shape> unpooled_shape(const MaxUnpoolAttrs& a, const Shape& x) {
  const int rank = static_cast<int>(a.kernel.size());
  if (x.rank() != rank + 2)
    return InvalidModel("the input of unpooling has rank ", x.rank(), ", ", rank + 2, " expected");
  if ((!a.strides.empty() && static_cast<int>(a.strides.size()) != rank) ||
      (!a.pads.empty() && static_cast<int>(a.pads.size()) != 2 * rank))
    return InvalidModel("strides or pads of unpooling do not fit its window");
  Shape y = x;
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t stride = a.strides.empty() ? 1 : a.strides[at];
    const int64_t pads = a.pads.empty() ? 0 : a.pads[at] + a.pads[at + static_cast<size_t>(rank)];
    constexpr int64_t kLargest = int64_t{1} << 31;
    if (stride < 1 || stride > kLargest || a.kernel[at] < 1 || a.kernel[at] > kLargest || pads < -kLargest ||
        pads > kLargest || x[i + 2] > kLargest)
      return InvalidModel("sizes of unpooling are out of range");
    if (x[i + 2] < 0) continue;
    y[i + 2] = (x[i + 2] - 1) * stride + a.kernel[at] - pads;
    if (y[i + 2] < 0) return InvalidInput("unpooling gives a negative size in spatial dimension ", i);
  }
  return y;
}

namespace {

Result<Shape> windows_shape(const MaxUnpoolAttrs& a, const Shape& x) {
  if (x.rank() != 4) return InvalidModel("the input of unpooling has rank ", x.rank(), ", 4 expected");
  Shape y = x;
  for (int i = 0; i < 2; ++i) {
    if (x[i + 1] < 0) continue;
    const auto size = checked_mul(x[i + 1], a.kernel[static_cast<size_t>(i)]);
    if (!size) return InvalidModel("sizes of unpooling are out of range");
    y[i + 1] = *size;
  }
  return y;
}

/// reference_MaxUnpool() for indices within windows.
Status unpool_windows(KernelContext& ctx, const MaxUnpoolAttrs& a) {
  const Tensor &x = ctx.input(0), &indices = ctx.input(1);
  Tensor& y = ctx.output(0);
  if (x.dtype() != DType::kF32 || indices.dtype() != DType::kF32)
    return Unsupported("unpooling by windows of ", to_string(x.dtype()), " and ", to_string(indices.dtype()));
  if (!(indices.shape() == x.shape()))
    return InvalidInput("indices have shape ", indices.shape().str(), ", the input ", x.shape().str());
  const int64_t channels = x.dim(3), height = y.dim(1), width = y.dim(2);
  const auto first = [&](int i) {
    const auto u = static_cast<size_t>(i);
    return -std::max<int64_t>((x.dim(i + 1) - 1) * (a.strides[u] - a.kernel[u]), 0) / 2;
  };
  const int64_t top = first(0), left = first(1);
  const float *value = x.data<float>(), *index = indices.data<float>();
  for (int64_t n = 0; n < x.dim(0); ++n) {
    float* image = y.data<float>() + n * height * width * channels;
    for (int64_t iy = 0; iy < x.dim(1); ++iy)
      for (int64_t ix = 0; ix < x.dim(2); ++ix)
        for (int64_t c = 0; c < channels; ++c, ++value, ++index) {
          if (!(std::fabs(*index) < 1e9f)) continue;
          const auto at = static_cast<int64_t>(*index);
          const int64_t oy = top + iy * a.strides[0] + at / a.kernel[1];
          const int64_t ox = left + ix * a.strides[1] + at % a.kernel[1];
          if (oy >= 0 && oy < height && ox >= 0 && ox < width) image[(oy * width + ox) * channels + c] = *value;
        }
  }
  return ctx.tick();
}

}  // namespace

Status infer_MaxUnpool(InferContext& ctx) {
  const auto& a = ctx.attrs<MaxUnpoolAttrs>();
  const ValueType& x = ctx.input(0);
  ValueType y = ValueType::tensor(x.dtype);
  if (a.in_window) {
    if (x.ranked) {
      SMELT_ASSIGN(const Shape shape, windows_shape(a, x.shape));
      y = ValueType::tensor(x.dtype, shape);
    }
    ctx.set(0, std::move(y));
    return Ok();
  }
  if (x.ranked) {
    SMELT_ASSIGN(y.shape, unpooled_shape(a, x.shape));
    y.ranked = true;
    if (ctx.has(2)) {
      const auto sizes = ctx.ints(2);
      if (sizes && static_cast<int>(sizes->size()) != x.shape.rank())
        return InvalidInput("output_shape has ", sizes->size(), " numbers, ", x.shape.rank(), " expected");
      for (int i = 0; i < x.shape.rank(); ++i) {
        y.shape[i] = sizes ? (*sizes)[static_cast<size_t>(i)] : -1;
        if (sizes && y.shape[i] < 0) return InvalidInput("output_shape holds ", y.shape[i]);
      }
    }
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_MaxUnpool(KernelContext& ctx) {
  if (const auto& a = ctx.attrs<MaxUnpoolAttrs>(); a.in_window) return unpool_windows(ctx, a);
  const Tensor &x = ctx.input(0), &indices = ctx.input(1);
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(const Shape inner, unpooled_shape(ctx.attrs<MaxUnpoolAttrs>(), x.shape()));
  SMELT_ASSIGN(const int64_t limit, inner.checked_elements());
  if (indices.elements() != x.elements())
    return InvalidInput("there are ", indices.elements(), " indices for ", x.elements(), " elements");
  const Shape strides = y.shape().strides();
  for (int64_t i = 0, n = x.elements(); i < n; ++i) {
    int64_t at = get_int(indices, i), offset = 0;
    if (at < 0 || at >= limit) return InvalidInput("index ", at, " is outside the unpooled image of ", inner.str());
    for (int d = inner.rank() - 1; d >= 0; --d) {
      const int64_t p = at % inner[d];
      at /= inner[d];
      if (p >= y.dim(d)) return InvalidInput("an index is outside the output of shape ", y.shape().str());
      offset += p * strides[d];
    }
    set_double(y, offset, get_double(x, i));
  }
  return Ok();
}

}  // namespace smelt
