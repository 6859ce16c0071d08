// Products of 8-bit integers whose zero point, and maybe scale, is known when they run: ConvInteger, MatMulInteger,
// TFLite's dynamic_quant convolution and convolutions of images that carry a params each.
#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "backends/cpu/conv/conv_integer.h"
#include "backends/cpu/conv/conv_line_buffer.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/conv/image_quantizer.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/prefetch.h"
#include "backends/cpu/core/slots.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/quantized_pair.h"
#include "tensor/numeric.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

struct ConvIntegerKey {
  FilterKey filter;
  const GemmI8* gemm;
  const void* zeros;  ///< the filter's zero points where they are an operand
  int64_t form;
  bool real;
  auto operator<=>(const ConvIntegerKey&) const = default;
};

/// Channels-last rows of patches times packed filters. The accumulators go out as they are, or rescaled by the params
/// that an image of real numbers was quantized to.
class ConvIntegerKernel final : public Kernel {
 public:
  enum class Images : uint8_t {
    kAccumulators,  ///< integers with one zero point at most, an operand; accumulators come out
    kScaled,        ///< as kAccumulators, and one scale, an operand; float32 comes out
    kDynamic,       ///< the input carries a scale and zero point an image; float32 comes out
    kDynamicQuant,  ///< float32, quantized at run time; float32 comes out
  };
  ConvIntegerKernel(const ConvShape& g, const WeightQuantParams& params, const KernelSpec& spec, Images images)
      : g_(g),
        images_(images),
        real_(images != Images::kAccumulators),
        x_signed_(images == Images::kDynamicQuant || spec.inputs[0].dtype == DType::kI8),
        gemm_(gemm_i8(spec.isa, filter_fits_int8(g, *spec.constant(1), params.zeros))),
        chunks_(g, gemm_, spec.isa),
        flipped_(chunks_.flips(x_signed_)),
        quant_(dynamic_quant_ops(spec.isa)),
        threads_(std::max(spec.threads, 1)) {
    const bool operands = images == Images::kAccumulators || images == Images::kScaled;
    if (!operands) {
      act_ = spec.attrs<ConvAttrs>().act;
      asymmetric_ = spec.attrs<ConvAttrs>().asymmetric_inputs;
    }
    (operands ? has_zero_ : has_bias_) = spec.has(2);
    lda_ = gemm_.a_row_bytes(g.k());
    block_ = gemm_.block_rows(g.out_pixels(), g.k());
    if (threads_ > 1) {
      // As many blocks for each, of one size: the product makes tiles of one height of any number of rows.
      block_ = ceil_div(g.out_pixels(), round_up(ceil_div(g.out_pixels(), block_), threads_));
    }
    patches_ = padded_bytes(block_ * lda_ + kPatchSlack);
    raw_ = g.pointwise() || gemm_.bytes ? 0 : padded_bytes(block_ * lda_ / 2 + kPatchSlack);
    windows_ = chunks_.apply() ? chunks_.scratch_bytes(threads_) : threads_ * (patches_ + raw_);
    quantized_ = images == Images::kDynamicQuant ? padded_bytes(g.in_pixels() * g.all_in() + kPatchSlack) : 0;
    scales_at_ = padded_bytes(chunks_.packed_bytes());
    column_sums_offset_ = scales_at_ + padded_bytes(g.all_out() * 4);
    const void* zeros = images == Images::kAccumulators && spec.has(3) ? spec.constant(3)->raw() : nullptr;
    packed_ =
        spec.packs.get(ConvIntegerKey{{g, *spec.constant(1), nullptr}, &gemm_, zeros, chunks_.form(), real_}, [&] {
          const Tensor& filter = *spec.constant(1);
          Packed packed = pack(filter, params);
          release_pages(filter);
          return packed;
        });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(windows_ + quantized_); }
  bool take_epilogue(const EpilogueF32& epilogue) override { return real_ && clamps(act_) && epilogue_.take(epilogue); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    uint8_t* quantized = scratch + windows_;
    const int64_t size = g_.in_pixels() * g_.all_in();
    if (images_ == Images::kDynamic) SMELT_TRY(check_per_token_params(ctx.input(0), g_.batch));
    for (int64_t image = 0; image < g_.batch; ++image) {
      QuantParams params;
      const uint8_t* x = quantized;
      if (images_ == Images::kDynamicQuant) {
        const float* real = ctx.input(0).data<float>() + image * size;
        QuantRule rule;
        if (chunks_.apply() && quantizer().choose_params(ctx.threads(), real, size, &params, &rule)) {
          const auto load = [&](int64_t at, int64_t pixels, uint8_t* to) {
            const int64_t n = pixels * g_.all_in();
            quant_.quantize(real + at, n, rule, to);
            if (flipped_) gemm_.flip(to, n, to);
            prefetch_row(real + at + n, n * int64_t{sizeof(float)});
          };
          lines_of_image(ctx, std::ref(load), params, image, scratch);
          continue;
        }
        params = quantizer().quantize(ctx.threads(), real, size, quantized);
      } else {
        x = ctx.input(0).data<uint8_t>() + image * size;
        if (images_ == Images::kDynamic)
          params = {ctx.input(0).quant()->scale(image), ctx.input(0).quant()->zero_point(image)};
        if (images_ == Images::kScaled) params.scale = ctx.input(3).data<float>()[0];
        if (has_zero_) params.zero_point = static_cast<int32_t>(get_int(ctx.input(2), 0));
      }
      rows_of_image(ctx, x, params, image, scratch);
    }
    return Ok();
  }

 private:
  ImageQuantizer quantizer() const { return {quant_, asymmetric_, threads_}; }
  Packed pack(const Tensor& filter, const WeightQuantParams& params) const {
    return pack_ordered_filter(g_, filter, params.zeros, gemm_.packs_int8(),
                               [&](const auto* values) { return pack(values, params); });
  }
  /// Packs an ordered filter.
  template <class W>
  Packed pack(const W* values, const WeightQuantParams& params) const {
    auto packed =
        std::make_shared<AlignedBuffer>(static_cast<size_t>(column_sums_offset_ + padded_bytes(g_.all_out() * 4)));
    char* to = packed->data<char>();
    chunks_.pack(values, nullptr, 0, to);
    std::copy(params.scales.begin(), params.scales.end(), reinterpret_cast<float*>(to + scales_at_));
    auto* acc = reinterpret_cast<uint32_t*>(to + column_sums_offset_);
    for (int64_t o = 0; o < g_.all_out(); ++o) {
      const W* filter = values + o * g_.k();
      if constexpr (sizeof(W) == 1)
        acc[o] = static_cast<uint32_t>(gemm_.sum_bytes(reinterpret_cast<const uint8_t*>(filter), g_.k(), true));
      else
        acc[o] = std::accumulate(filter, filter + g_.k(), uint32_t{0});
    }
    return packed;
  }
  /// By the line buffer.
  void lines_of_image(KernelContext& ctx, const LoadPixels& load, const QuantParams& params, int64_t image,
                      uint8_t* scratch) const {
    const Outputs out = outputs(ctx, params, image);
    chunks_.image(ctx.threads(), threads_, load, x_signed_ && !flipped_, GemmI8::zero_byte(params.zero_point, flipped_),
                  packed_->data<char>(), scratch,
                  [&](const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n) {
                    put(out, acc, pixel, pixels, channel, n);
                  });
    activate(out, 0, g_.out_pixels());
  }
  void rows_of_image(KernelContext& ctx, const uint8_t* x, const QuantParams& params, int64_t image,
                     uint8_t* scratch) const {
    if (chunks_.apply()) {
      const auto load = chunks_.loads_of(x, flipped_);
      return lines_of_image(ctx, std::ref(load), params, image, scratch);
    }
    const Outputs out = outputs(ctx, params, image);
    in_slots(ctx.threads(), threads_, ceil_div(g_.out_pixels(), block_),
             [&](int64_t b, int64_t slot) { block(x, params, out, b * block_, scratch + slot * (patches_ + raw_)); });
  }
  /// Where the accumulators of an image go, and how.
  struct Outputs {
    QuantParams left;      ///< its zero point is what is left to subtract
    AccumulatorScales by;  ///< real numbers
    EpilogueRun epilogue;  ///< of real numbers
    float* real = nullptr;
    int32_t* acc = nullptr;
  };
  Outputs outputs(KernelContext& ctx, const QuantParams& params, int64_t image) const {
    const Bounds bounds = activation_bounds(act_);
    const int64_t at = image * g_.out_pixels() * g_.all_out();
    Outputs out{{params.scale, gemm_.bytes ? GemmI8::int8_zero_point(x_signed_, params.zero_point) : 0},
                {.column_sums = reinterpret_cast<const int32_t*>(packed_->data<char>() + column_sums_offset_),
                 .scales = reinterpret_cast<const float*>(packed_->data<char>() + scales_at_),
                 .bias = has_bias_ ? ctx.input(2).data<float>() : nullptr,
                 .lo = bounds.lo,
                 .hi = bounds.hi},
                EpilogueRun(epilogue_, ctx)};
    if (real_)
      out.real = ctx.output(0).data<float>() + at;
    else
      out.acc = ctx.output(0).data<int32_t>() + at;
    return out;
  }
  /// A tile of accumulators, gemm_.nr() apart.
  void put(const Outputs& out, const int32_t* acc, int64_t pixel, int64_t pixels, int64_t channel, int64_t n) const {
    const int64_t at = pixel * g_.all_out() + channel;
    if (real_) {
      quant_.rescale(out.by.columns(channel), acc, gemm_.nr(), pixels, &out.left, 0, n, out.real + at, g_.all_out());
      float* const next = out.real + at + pixels * g_.all_out();  // where the next tile is likely to begin
      constexpr int64_t kLong = 512;                              // products that take longer than to ask
      if (g_.k() >= kLong) prefetch_tile(next, pixels, g_.all_out());
      if (!out.epilogue) return;
      out.epilogue(out.real + at, pixels, n, g_.all_out());
      out.epilogue.prefetch(next, pixels, g_.all_out());
      return;
    }
    const auto zero = static_cast<uint32_t>(out.left.zero_point);
    int32_t* y = out.acc + at;
    for (int64_t r = 0; r < pixels; ++r, acc += gemm_.nr(), y += g_.all_out())
      for (int64_t j = 0; j < n; ++j)
        y[j] = static_cast<int32_t>(static_cast<uint32_t>(acc[j]) -
                                    zero * static_cast<uint32_t>(out.by.column_sums[channel + j]));
  }
  void activate(const Outputs& out, int64_t pixel, int64_t pixels) const {
    if (real_) apply_activation(act_, out.real + pixel * g_.all_out(), pixels, g_.all_out(), g_.all_out());
  }
  /// Output pixels from `first` on, from patches.
  void block(const uint8_t* x, const QuantParams& params, const Outputs& out, int64_t first, uint8_t* scratch) const {
    const int64_t rows = std::min(first + block_, g_.out_pixels()) - first;
    const bool direct =
        g_.pointwise() && gemm_.bytes && !flipped_ && g_.c_in % 4 == 0;  // whole groups as they lie in the image
    for (int64_t group = 0; group < g_.groups; ++group) {
      const uint8_t* a = direct ? x + first * g_.all_in() + group * g_.c_in : scratch;
      if (g_.pointwise() && !direct) {
        gemm_.convert(x + first * g_.all_in() + group * g_.c_in, g_.all_in(), rows, g_.c_in, x_signed_,
                      params.zero_point, scratch, lda_, flipped_);
      } else if (!direct) {
        uint8_t* raw = gemm_.bytes ? scratch : scratch + patches_;
        const int64_t stride = gemm_.bytes ? lda_ : lda_ / 2;
        im2col_rows<uint8_t>(g_, x + group * g_.c_in, first, first + rows, static_cast<uint8_t>(params.zero_point), raw,
                             stride);
        if (!gemm_.bytes) gemm_.convert(raw, stride, rows, stride, x_signed_, params.zero_point, scratch, lda_);
        if (flipped_) gemm_.flip(scratch, rows * lda_, scratch);
      }
      gemm_.run_inlined(rows, g_.c_out, g_.k(), a, direct ? g_.all_in() : lda_, x_signed_ && !flipped_,
                        packed_->data<char>() + group * gemm_.packed_bytes(g_.k(), g_.c_out), 0, gemm_.panels(g_.c_out),
                        [&](const int32_t* acc, int64_t row, int64_t n_rows, int64_t column, int64_t n) {
                          put(out, acc, first + row, n_rows, group * g_.c_out + column, n);
                        });
    }
    activate(out, first, rows);
  }

  ConvShape g_;
  Images images_;
  bool real_, x_signed_, asymmetric_ = false, has_bias_ = false, has_zero_ = false;
  Activation act_;
  EpilogueF32 epilogue_;
  const GemmI8& gemm_;
  ConvLineBuffer chunks_;
  bool flipped_;  ///< rows of patches have their sign bits flipped
  const DynamicQuantOps& quant_;
  int64_t threads_, lda_ = 0, block_ = 1, patches_ = 0, raw_ = 0, windows_ = 0, quantized_ = 0;
  int64_t scales_at_ = 0, column_sums_offset_ = 0;
  Packed packed_;
};

/// Channels-last images and constant 8-bit filters that give float32; null where that does not fit.
std::unique_ptr<Kernel> to_real(const KernelSpec& spec, ConvIntegerKernel::Images images) {
  const auto g = ConvShape::in_lines(spec);
  if (!g || spec.outputs[0].shape.elements() == 0) return nullptr;
  const auto params = real_weight_params(spec, g->all_out());
  return params ? std::make_unique<ConvIntegerKernel>(*g, *params, spec, images) : nullptr;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_dynamic_quant(const KernelSpec& spec) {
  if (!spec.attrs<ConvAttrs>().dynamic_quant) return spec.refuse("the node does not ask for dynamic quantization");
  return to_real(spec, ConvIntegerKernel::Images::kDynamicQuant);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_qd8(const KernelSpec& spec) {
  const ValueType& x = spec.inputs[0];
  if (x.quant->kind != Quantization::Kind::kPerToken || x.shape.rank() == 0 || x.quant->axis != x.shape.rank() - 1)
    return spec.refuse("input 0 has no scale an image");
  return to_real(spec, ConvIntegerKernel::Images::kDynamic);
}

[[gnu::cold]] std::optional<WeightQuantParams> real_weight_params(const KernelSpec& spec, int64_t channels) {
  const int axis = filter_output_axis(spec.attrs<ConvAttrs>(), spec.inputs[1].shape.rank());
  const auto pair = QuantizedPair::make(dynamically_quantized(spec.inputs[0]), spec.inputs[1], axis, channels);
  if (!pair) return std::nullopt;
  WeightQuantParams params{pair->w_zeros, {}};
  const Quantization& q = *spec.inputs[1].quant;
  for (int64_t o = 0; o < channels; ++o) params.scales.push_back(q.scale(q.scales.size() == 1 ? 0 : o));
  return params;
}

[[gnu::cold]] std::optional<WeightQuantParams> integer_weight_params(const KernelSpec& spec, int64_t channels) {
  WeightQuantParams params{std::vector<int32_t>(static_cast<size_t>(channels), 0), {}};
  if (spec.inputs[1].quant) {
    if (!spec.has(3) || spec.inputs[3].dtype != DType::kF32 || spec.inputs[3].shape.elements() != 1)
      return std::nullopt;
    return real_weight_params(spec, channels);
  }
  if (!spec.has(3)) return params;
  const Tensor* zeros = spec.constant(3);
  if (!zeros || !is_8bit(zeros->dtype()) || (zeros->elements() != 1 && zeros->elements() != channels))
    return std::nullopt;
  for (int64_t o = 0; o < channels; ++o)
    params.zeros[static_cast<size_t>(o)] = static_cast<int32_t>(get_int(*zeros, zeros->elements() == 1 ? 0 : o));
  return params;
}

[[gnu::cold]] std::unique_ptr<Kernel> make_integer_kernel(const KernelSpec& spec, const ConvShape& g) {
  if (spec.outputs[0].shape.elements() == 0) return nullptr;
  if (spec.has(2) && (spec.inputs[2].shape.elements() != 1 || spec.inputs[2].dtype != spec.inputs[0].dtype))
    return spec.refuse("input 0 has more than one zero point");
  const auto params = integer_weight_params(spec, g.all_out());
  if (!params) return spec.refuse("zero points or scales are neither one nor one an output channel");
  using Images = ConvIntegerKernel::Images;
  return std::make_unique<ConvIntegerKernel>(g, *params, spec,
                                             params->scales.empty() ? Images::kAccumulators : Images::kScaled);
}

[[gnu::cold]] std::unique_ptr<Kernel> make_conv_integer(const KernelSpec& spec) {
  const auto g = ConvShape::in_lines({spec.node, spec.inputs.first(2), spec.constants, spec.outputs});
  return g ? make_integer_kernel(spec, *g) : nullptr;
}

}  // namespace smelt
