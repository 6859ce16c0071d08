#include <algorithm>

#include "ops/common/output_type.h"
#include "ops/common/parameters.h"
#include "ops/common/requantizer.h"
#include "ops/conv/conv_integer.h"
#include "ops/conv/quantized.h"

namespace smelt {
namespace {

/// An error if there is a bias without one entry for each output channel.
Status check_bias(KernelContext& ctx, int i, int64_t channels) {
  if (ctx.has(i) && ctx.input(i).elements() != channels)
    return InvalidInput("bias has ", ctx.input(i).elements(), " elements, ", channels, " expected");
  return Ok();
}

/// Convolution of unquantized numbers: accumulators, bias, activation, layout.
template <class Accumulate>
Status real_convolution(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, Accumulate&& accumulate) {
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  return with_real_compute(compute_of(x, filter), [&]<class T>() -> Status {
    SMELT_ASSIGN(const T* const xs, operand<T>(ctx, x));
    SMELT_ASSIGN(const T* const fs, operand<T>(ctx, filter));
    SMELT_ASSIGN(const T* const bias, optional_operand<T>(ctx, 2));
    SMELT_ASSIGN(T* const accumulators, accumulate(xs, fs));
    const int64_t positions = g.window.out_positions();
    add_bias_activate(accumulators, g.batch * positions, g.out_channels, bias, a.act);
    return store_image(ctx, accumulators, g.batch, positions, g.out_channels, a.layout, ctx.output(0));
  });
}

/// Spatial output sizes that the node asks for; empty: none. `unknown`: given by an input of unknown contents.
Result<std::vector<int64_t>> asked_sizes(InferContext& ctx, const ConvTransposeAttrs& a, bool& unknown) {
  unknown = false;
  if (!ctx.has(3)) return a.output_shape;
  if (auto full = ctx.ints(3)) return spatial_part(*full, a.layout, ctx.input(0).shape.rank());
  unknown = true;
  return std::vector<int64_t>{};
}

/// A convolution's shape with the given element type.
Status infer_as(InferContext& ctx, DType dtype) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const ValueType &x = ctx.input(0), &filter = ctx.input(1);
  ValueType y = ValueType::tensor(dtype);
  if (x.ranked && filter.ranked) {
    SMELT_ASSIGN(const ConvGeometry g, conv_geometry(a, x.shape, filter.shape));
    y.ranked = true;
    y.shape = g.output_shape(a.layout);
  }
  ctx.set(0, std::move(y));
  return Ok();
}

}  // namespace

Status infer_Conv(InferContext& ctx) {
  SMELT_TRY(infer_as(ctx, real_result_type(ctx)));
  const ValueType &x = ctx.input(0), &filter = ctx.input(1);
  if (!x.ranked || !filter.ranked) return Ok();
  SMELT_ASSIGN(const ConvGeometry g, conv_geometry(ctx.attrs<ConvAttrs>(), x.shape, filter.shape));
  return check_length(ctx, 2, g.out_channels, "bias");
}

Status reference_Conv(KernelContext& ctx) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  SMELT_ASSIGN(const ConvGeometry g, conv_geometry(a, x.shape(), filter.shape()));
  SMELT_TRY(check_bias(ctx, 2, g.out_channels));
  if (runs_on_integers(x, filter, a)) return quantized_conv(ctx, g, a, false);
  if (a.dynamic_quant && runs_dynamic_quant(x, filter, a)) return dynamic_quant_conv(ctx, g, a, false);
  return real_convolution(ctx, g, a, [&]<class T>(const T* xs, const T* fs) { return convolve(ctx, g, a, xs, fs); });
}

Status infer_ConvTranspose(InferContext& ctx) {
  const auto& a = ctx.attrs<ConvTransposeAttrs>();
  const ValueType &x = ctx.input(0), &filter = ctx.input(1);
  ValueType y = ValueType::tensor(real_result_type(ctx));
  if (x.ranked && filter.ranked) {
    bool unknown = false;
    SMELT_ASSIGN(const auto sizes, asked_sizes(ctx, a, unknown));
    SMELT_ASSIGN(ConvGeometry g, conv_transpose_geometry(a, x.shape, filter.shape, sizes));
    SMELT_TRY(check_length(ctx, 2, g.out_channels, "bias"));
    if (unknown)
      for (int i = 0; i < g.window.rank; ++i) g.window.dims[static_cast<size_t>(i)].out = -1;
    y.ranked = true;
    y.shape = g.output_shape(a.layout);
  }
  ctx.set(0, std::move(y));
  return Ok();
}

Status reference_ConvTranspose(KernelContext& ctx) {
  const auto& a = ctx.attrs<ConvTransposeAttrs>();
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  std::vector<int64_t> sizes = a.output_shape;
  if (ctx.has(3)) {
    const Shape& y = ctx.output(0).shape();
    const int first = spatial_dim(a.layout);
    sizes.assign(y.begin() + first, y.begin() + first + (y.rank() - 2));
  }
  SMELT_ASSIGN(const ConvGeometry g, conv_transpose_geometry(a, x.shape(), filter.shape(), sizes));
  SMELT_TRY(check_bias(ctx, 2, g.out_channels));
  if (runs_on_integers(x, filter, a)) return quantized_conv(ctx, g, a, true);
  if (a.dynamic_quant && runs_dynamic_quant(x, filter, a)) return dynamic_quant_conv(ctx, g, a, true);
  return real_convolution(ctx, g, a,
                          [&]<class T>(const T* xs, const T* fs) { return convolve_transposed(ctx, g, a, xs, fs); });
}

Status infer_ConvInteger(InferContext& ctx) { return infer_as(ctx, ctx.input(1).quant ? DType::kF32 : DType::kI32); }

namespace {

/// ConvInteger of a quantized filter: accumulators, channels-last, times x's scale (input 3) and the filter's.
Status rescale_integers(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, const uint32_t* accumulators) {
  SMELT_ASSIGN(const float* const scale, optional_operand<float>(ctx, 3));
  const std::vector<float>& scales = ctx.input(1).quant()->scales;
  const auto of_channels = static_cast<int64_t>(scales.size());
  if (!scale || ctx.input(3).elements() != 1 || (of_channels != 1 && of_channels != g.out_channels))
    return InvalidInput("no scale of x, or ", of_channels, " scales for ", g.out_channels, " output channels");
  const int64_t n = g.batch * g.window.out_positions() * g.out_channels;
  SMELT_ASSIGN(float* const real, scratch_array<float>(ctx, n));
  for (int64_t i = 0; i < n; ++i)
    real[i] = static_cast<float>(static_cast<int32_t>(accumulators[i])) *
              (scale[0] * scales[of_channels == 1 ? 0 : static_cast<size_t>(i % g.out_channels)]);
  return store_image(ctx, real, g.batch, g.window.out_positions(), g.out_channels, a.layout, ctx.output(0));
}

}  // namespace

Status reference_ConvInteger(KernelContext& ctx) {
  const auto& a = ctx.attrs<ConvAttrs>();
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  SMELT_ASSIGN(const ConvGeometry g, conv_geometry(a, x.shape(), filter.shape()));
  SMELT_ASSIGN(uint32_t* const xs, operand_copy<uint32_t>(ctx, x));
  SMELT_ASSIGN(uint32_t* const fs, operand_copy<uint32_t>(ctx, filter));
  if (ctx.has(2)) SMELT_TRY(subtract_zero_points(ctx.input(2), xs, x.shape(), channel_dim(a.layout, x.rank())));
  const int axis = filter_dims(a.filter, filter.rank()).output;
  const QuantPtr& quant = filter.quant();
  if (quant && !quant->zero_points.empty())
    SMELT_TRY(subtract_zero_points(
        Tensor::from<int32_t>(DType::kI32, Shape{static_cast<int64_t>(quant->zero_points.size())}, quant->zero_points),
        fs, filter.shape(), axis));
  if (!quant && ctx.has(3)) SMELT_TRY(subtract_zero_points(ctx.input(3), fs, filter.shape(), axis));
  SMELT_ASSIGN(uint32_t* const accumulators, convolve<uint32_t>(ctx, g, a, xs, fs));
  if (quant) return rescale_integers(ctx, g, a, accumulators);
  const int64_t positions = g.window.out_positions();
  Tensor& y = ctx.output(0);
  if (a.layout == Layout::kChannelsFirst)
    to_channels_first(accumulators, g.batch, positions, g.out_channels, y.data<uint32_t>());
  else
    std::copy_n(accumulators, y.elements(), y.data<uint32_t>());
  return Ok();
}

}  // namespace smelt
