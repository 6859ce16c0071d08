#include <algorithm>
#include <utility>

#include "backends/cpu/conv/conv_integer.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/image_quantizer.h"
#include "backends/cpu/conv/winograd_conv_i8.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/workspace.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "ops/common/quantized_pair.h"

namespace smelt {
namespace {

/// The convolution of an image after the other, each quantized at run time to a scale and a zero point of its own.
class ConvWinogradDynamicQuant final : public Kernel {
 public:
  ConvWinogradDynamicQuant(const ConvShape& images, const WeightQuantParams& params, const WinogradI8& transforms,
                           const KernelSpec& spec)
      : g_(images),
        act_(spec.attrs<ConvAttrs>().act),
        has_bias_(spec.has(2)),
        quantizer_{dynamic_quant_ops(spec.isa), spec.attrs<ConvAttrs>().asymmetric_inputs, std::max(spec.threads, 1)},
        scales_(params.scales),
        conv_(image_of(images), params.zeros, {}, transforms, spec) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(quantized_bytes() + conv_.scratch_bytes()); }
  bool take_epilogue(const EpilogueF32& epilogue) override { return clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    auto* quantized = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!quantized) return Error(ErrorCode::kLimit, "no memory for the tiles of a convolution");
    const int64_t size = g_.in_pixels() * g_.c_in, made = g_.out_pixels() * g_.c_out;
    const Bounds bounds = activation_bounds(act_);
    const EpilogueRun epilogue(epilogue_, ctx);
    for (int64_t image = 0; image < g_.batch; ++image) {
      const float* const x = ctx.input(0).data<float>() + image * size;
      float* const y = ctx.output(0).data<float>() + image * made;
      const QuantParams params = quantizer_.quantize(ctx.threads(), x, size, quantized);
      const AccumulatorScales by{.column_sums = nullptr,
                                 .scales = scales_.data(),
                                 .bias = has_bias_ ? ctx.input(2).data<float>() : nullptr,
                                 .lo = bounds.lo,
                                 .hi = bounds.hi};
      const Reals reals(*this, by, {params.scale, 0}, epilogue, y);
      conv_.run(ctx.threads(), quantized, true, params.zero_point, quantized + quantized_bytes(), reals);
      apply_activation(act_, y, g_.out_pixels(), g_.c_out, g_.c_out);
    }
    return Ok();
  }

 private:
  class Reals final : public AccumulatorLines {
   public:
    Reals(const ConvWinogradDynamicQuant& kernel, const AccumulatorScales& by, QuantParams params,
          const EpilogueRun& epilogue, float* y)
        : kernel_(kernel), by_(by), params_(params), epilogue_(epilogue), y_(y) {}
    void put(const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n) const override {
      const int64_t all = kernel_.g_.c_out;
      float* const y = y_ + pixel * all + channel;
      kernel_.quantizer_.ops.rescale(by_.columns(channel), acc, kernel_.conv_.stride(), pixels, &params_, 0, n, y, all);
      if (epilogue_) epilogue_(y, pixels, n, all);
    }

   private:
    const ConvWinogradDynamicQuant& kernel_;
    const AccumulatorScales by_;
    const QuantParams params_;  ///< zero points are subtracted before
    const EpilogueRun& epilogue_;
    float* y_;
  };

  static ConvShape image_of(ConvShape g) {
    g.batch = 1;
    return g;
  }
  int64_t quantized_bytes() const { return padded_bytes(g_.in_pixels() * g_.c_in); }

  ConvShape g_;
  Activation act_;
  bool has_bias_;
  EpilogueF32 epilogue_;
  ImageQuantizer quantizer_;
  std::vector<float> scales_;
  WinogradConvI8 conv_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_dynamic_quant(const KernelSpec& spec) {
  if (!spec.attrs<ConvAttrs>().dynamic_quant) return spec.refuse("the node does not ask for dynamic quantization");
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const auto params = real_weight_params(spec, g->all_out());
  if (!params || !filter_fits_int8(*g, *spec.constant(1), params->zeros)) return nullptr;
  const auto* const transforms = WinogradConvI8::transforms_for(spec, *g, [&](const WinogradI8& w) {
    // Whatever the zero point is, numbers lie within 255 of each other, and the bound is linear in it.
    const auto largest = [&](int64_t below, int64_t above) {
      return WinogradConvI8::largest_result(spec, *g, params->zeros, below, above);
    };
    return std::max(largest(255, 0), largest(0, 255)) <= w.most_magnitude;
  });
  if (!transforms)
    return spec.refuse("another way to convolve takes less time, or SMELT_CPU_WINOGRAD forbids this one");
  return std::make_unique<ConvWinogradDynamicQuant>(*g, *params, *transforms, spec);
}

}  // namespace smelt
