#include "ops/conv/quantized.h"

#include "ops/common/dynamic_quant.h"
#include "ops/common/requantizer.h"
#include "ops/conv/conv_integer.h"

namespace smelt {
namespace {

const Tensor* bias_of(KernelContext& ctx) { return ctx.has(2) ? &ctx.input(2) : nullptr; }

int output_axis(const Tensor& filter, const ConvAttrs& a) { return filter_dims(a.filter, filter.rank()).output; }

template <class T>
Result<T*> accumulate(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed, const T* x,
                      const T* filter) {
  return transposed ? convolve_transposed(ctx, g, a, x, filter) : convolve(ctx, g, a, x, filter);
}

template <class T>
Status run(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed, const Requantizer& r) {
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  SMELT_ASSIGN(T* const xs, operand_copy<T>(ctx, x));
  SMELT_ASSIGN(T* const fs, operand_copy<T>(ctx, filter));
  subtract_own_zero_points(x, xs);
  subtract_own_zero_points(filter, fs);
  SMELT_ASSIGN(const T* const accumulators, accumulate<T>(ctx, g, a, transposed, xs, fs));
  const int64_t positions = g.window.out_positions(), rows = g.batch * positions;
  Tensor& y = ctx.output(0);
  if (r.real()) {
    SMELT_ASSIGN(float* const out, scratch_array<float>(ctx, y.elements()));
    r.to_real(accumulators, rows, out);
    return store_image(ctx, out, g.batch, positions, g.out_channels, a.layout, y);
  }
  SMELT_ASSIGN(uint64_t* const out, scratch_array<uint64_t>(ctx, y.elements()));
  r.to_quantized(accumulators, rows, out);
  return store_image(ctx, out, g.batch, positions, g.out_channels, a.layout, y);
}

}  // namespace

bool runs_on_integers(const Tensor& x, const Tensor& filter, const ConvAttrs& a) {
  return has_integer_quant_params(x, -1) && has_integer_quant_params(filter, output_axis(filter, a));
}

Status quantized_conv(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed) {
  SMELT_ASSIGN(const Requantizer r, Requantizer::make(ctx.input(0), ctx.input(1), bias_of(ctx), ctx.output(0),
                                                      g.out_channels, a.rescale_rule()));
  return r.wide() ? run<uint64_t>(ctx, g, a, transposed, r) : run<uint32_t>(ctx, g, a, transposed, r);
}

bool runs_dynamic_quant(const Tensor& x, const Tensor& filter, const ConvAttrs& a) {
  return is_float(x.dtype()) && has_integer_quant_params(filter, output_axis(filter, a));
}

Status dynamic_quant_conv(KernelContext& ctx, const ConvGeometry& g, const ConvAttrs& a, bool transposed) {
  const Tensor &x = ctx.input(0), &filter = ctx.input(1);
  SMELT_ASSIGN(const float* const xs, operand<float>(ctx, x));
  SMELT_ASSIGN(uint32_t* const fs, operand_copy<uint32_t>(ctx, filter));
  subtract_own_zero_points(filter, fs);
  SMELT_ASSIGN(int8_t* const quantized, scratch_array<int8_t>(ctx, x.elements()));
  SMELT_ASSIGN(uint32_t* const ints, scratch_array<uint32_t>(ctx, x.elements()));
  const int64_t image = g.batch ? x.elements() / g.batch : 0;
  SMELT_ASSIGN(QuantParams* const params, scratch_array<QuantParams>(ctx, g.batch));
  for (int64_t n = 0; n < g.batch; ++n) {
    params[n] = quantize_row(xs + n * image, image, a.asymmetric_inputs, quantized + n * image);
    for (int64_t i = n * image; i < (n + 1) * image; ++i)
      ints[i] = static_cast<uint32_t>(quantized[i] - params[n].zero_point);
  }
  SMELT_ASSIGN(const uint32_t* const accumulators, accumulate<uint32_t>(ctx, g, a, transposed, ints, fs));
  SMELT_ASSIGN(const float* const bias, optional_operand<float>(ctx, 2));
  const Quantization& fq = *filter.quant();
  const int64_t positions = g.window.out_positions(), channels = g.out_channels;
  const auto scales = static_cast<int64_t>(fq.scales.size());
  SMELT_ASSIGN(float* const out, scratch_array<float>(ctx, g.batch * positions * channels));
  for (int64_t row = 0; row < g.batch * positions; ++row)
    for (int64_t c = 0; c < channels; ++c)
      out[row * channels + c] = static_cast<float>(static_cast<int32_t>(accumulators[row * channels + c])) *
                                params[row / positions].scale * fq.scale(scales > 1 ? c % scales : 0);
  add_bias_activate(out, g.batch * positions, channels, bias, a.act);
  return store_image(ctx, out, g.batch, positions, channels, a.layout, ctx.output(0));
}

}  // namespace smelt
