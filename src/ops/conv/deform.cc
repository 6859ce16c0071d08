#include <cmath>

#include "ops/common/operands.h"
#include "ops/conv/conv_integer.h"
#include "ops/conv/geometry.h"

namespace smelt {
namespace {

/// Bilinear read of a plane; positions outside contribute zero.
template <class T>
T read_plane(const T* plane, int64_t height, int64_t width, double y, double x) {
  if (!(y > -1 && x > -1 && y < static_cast<double>(height) && x < static_cast<double>(width))) return T{};
  const auto y0 = static_cast<int64_t>(std::floor(y)), x0 = static_cast<int64_t>(std::floor(x));
  const double dy = y - static_cast<double>(y0), dx = x - static_cast<double>(x0);
  const auto at = [&](int64_t r, int64_t c) {
    return r < 0 || r >= height || c < 0 || c >= width ? 0.0 : static_cast<double>(plane[r * width + c]);
  };
  return static_cast<T>((1 - dy) * ((1 - dx) * at(y0, x0) + dx * at(y0, x0 + 1)) +
                        dy * ((1 - dx) * at(y0 + 1, x0) + dx * at(y0 + 1, x0 + 1)));
}

/// offset [N, offset_groups * taps * 2, oh, ow] and mask [N, offset_groups * taps, oh, ow].
Status check_deform(const DeformConvAttrs& a, const ConvGeometry& g, const Tensor& offset, const Tensor* mask) {
  const int64_t taps = g.window.taps(), positions = g.window.out_positions();
  if (a.offset_groups < 1 || g.in_channels % a.offset_groups != 0)
    return InvalidModel(a.offset_groups, " offset groups do not divide ", g.in_channels, " channels");
  if (offset.elements() != g.batch * a.offset_groups * taps * 2 * positions)
    return InvalidInput("offsets of shape ", offset.shape().str(), " do not fit the convolution");
  if (mask && mask->elements() != g.batch * a.offset_groups * taps * positions)
    return InvalidInput("a mask of shape ", mask->shape().str(), " does not fit the convolution");
  return Ok();
}

template <class T>
Status deform(KernelContext& ctx, const DeformConvAttrs& a, const ConvGeometry& g) {
  const Tensor* mask_tensor = ctx.has(4) ? &ctx.input(4) : nullptr;
  SMELT_TRY(check_deform(a, g, ctx.input(2), mask_tensor));
  SMELT_ASSIGN(const T* const xs, operand<T>(ctx, ctx.input(0)));
  SMELT_ASSIGN(const T* const fs, operand<T>(ctx, ctx.input(1)));
  SMELT_ASSIGN(const T* const offsets, operand<T>(ctx, ctx.input(2)));
  SMELT_ASSIGN(const T* const bias, optional_operand<T>(ctx, 3));
  if (bias && ctx.input(3).elements() != g.out_channels)
    return InvalidInput("bias has ", ctx.input(3).elements(), " elements, ", g.out_channels, " expected");
  const T* mask = nullptr;
  if (mask_tensor) {
    SMELT_ASSIGN(mask, operand<T>(ctx, *mask_tensor));
  }
  Tensor& y = ctx.output(0);
  SMELT_ASSIGN(T* const ys, scratch_array<T>(ctx, y.elements()));
  const WindowDim &v = g.window.dims[0], &h = g.window.dims[1];
  const int64_t taps = g.window.taps(), positions = g.window.out_positions(), in = g.group_in(), out = g.group_out();
  const int64_t per_offset = g.in_channels / a.offset_groups;
  SMELT_ASSIGN(T* const column, scratch_array<T>(ctx, in * taps));
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t group = 0; group < g.groups; ++group) {
      SMELT_TRY(ctx.tick());
      for (int64_t o = 0; o < positions; ++o) {
        for (int64_t i = 0; i < in; ++i) {
          const int64_t c = group * in + i, og = c / per_offset;
          const T* plane = xs + (n * g.in_channels + c) * v.in * h.in;
          for (int64_t t = 0; t < taps; ++t) {
            const int64_t at = (n * a.offset_groups + og) * taps + t;
            const double py = static_cast<double>(o / h.out * v.stride - v.pad_begin + t / h.kernel * v.dilation) +
                              static_cast<double>(offsets[2 * at * positions + o]);
            const double px = static_cast<double>(o % h.out * h.stride - h.pad_begin + t % h.kernel * h.dilation) +
                              static_cast<double>(offsets[(2 * at + 1) * positions + o]);
            column[i * taps + t] = read_plane(plane, v.in, h.in, py, px) * (mask ? mask[at * positions + o] : T{1});
          }
        }
        for (int64_t oc = 0; oc < out; ++oc) {
          const int64_t c = group * out + oc;
          const T* f = fs + c * in * taps;
          T sum = bias ? bias[c] : T{};
          for (int64_t i = 0; i < in * taps; ++i) sum += f[i] * column[i];
          ys[(n * g.out_channels + c) * positions + o] = sum;
        }
      }
    }
  store(ys, y);
  return Ok();
}

}  // namespace

Status infer_DeformConv(InferContext& ctx) {
  const ValueType &x = ctx.input(0), &filter = ctx.input(1);
  ValueType y = ValueType::tensor(x.dtype);
  if (x.ranked && filter.ranked) {
    if (x.shape.rank() != 4) return Unsupported("DeformConv of rank ", x.shape.rank(), ", 4 expected");
    SMELT_ASSIGN(const ConvGeometry g, conv_geometry(ctx.attrs<DeformConvAttrs>(), x.shape, filter.shape));
    y.ranked = true;
    y.shape = g.output_shape(Layout::kChannelsFirst);
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_DeformConv(KernelContext& ctx) {
  const auto& a = ctx.attrs<DeformConvAttrs>();
  SMELT_ASSIGN(const ConvGeometry g, conv_geometry(a, ctx.input(0).shape(), ctx.input(1).shape()));
  return ctx.input(0).dtype() == DType::kF64 ? deform<double>(ctx, a, g) : deform<float>(ctx, a, g);
}

}  // namespace smelt
