#include <algorithm>
#include <utility>

#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/winograd_conv_i8.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/requantize_accumulators.h"
#include "ops/common/quantized_pair.h"

namespace smelt {
namespace {

class ConvWinogradI8 final : public Kernel {
 public:
  ConvWinogradI8(const ConvShape& g, const QuantizedPair& q, const WinogradI8& transforms, RequantizeParams params,
                 const KernelSpec& spec)
      : x_signed_(q.x_signed),
        x_zero_(q.x_zero),
        channels_(g.c_out),
        params_(std::move(params)),
        rescale_(requantize_accumulators(spec.isa, params_)),
        conv_(g, q.w_zeros, params_.bias, transforms, spec) {}
  size_t scratch_bytes() const override { return static_cast<size_t>(conv_.scratch_bytes()); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the tiles of a convolution");
    const Bytes bytes(*this, ctx.output(0).data<uint8_t>());
    conv_.run(ctx.threads(), ctx.input(0).data<uint8_t>(), x_signed_, x_zero_, scratch, bytes);
    return Ok();
  }

 private:
  class Bytes final : public AccumulatorLines {
   public:
    Bytes(const ConvWinogradI8& kernel, uint8_t* y) : kernel_(kernel), y_(y) {}
    void put(const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n) const override {
      kernel_.rescale_(kernel_.params_, acc, kernel_.conv_.stride(), pixels, n, channel,
                       y_ + pixel * kernel_.channels_ + channel, kernel_.channels_);
    }

   private:
    const ConvWinogradI8& kernel_;
    uint8_t* y_;
  };

  bool x_signed_;
  int32_t x_zero_;
  int64_t channels_;
  RequantizeParams params_;
  RequantizeAccumulators rescale_;
  WinogradConvI8 conv_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_winograd_i8(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const int axis = filter_output_axis(attrs, spec.inputs[1].shape.rank());
  const auto q = QuantizedPair::make(spec.inputs[0], spec.inputs[1], axis, g->all_out());
  if (!q || !filter_fits_int8(*g, *spec.constant(1), q->w_zeros)) return nullptr;
  const auto* const transforms = WinogradConvI8::transforms_for(spec, *g, [&](const WinogradI8& w) {
    const int64_t least = q->x_signed ? -128 : 0, below = q->x_zero - least, above = least + 255 - q->x_zero;
    return WinogradConvI8::largest_result(spec, *g, q->w_zeros, below, above) <= w.most_magnitude;
  });
  if (!transforms)
    return spec.refuse("another way to convolve takes less time, or SMELT_CPU_WINOGRAD forbids this one");
  auto params = smelt::requantize_params(spec, g->all_out(), attrs.rescale_rule());
  if (!params) return nullptr;
  return std::make_unique<ConvWinogradI8>(*g, *q, *transforms, std::move(*params), spec);
}

}  // namespace smelt
