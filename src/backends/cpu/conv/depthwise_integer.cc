#include <algorithm>
#include <type_traits>
#include <vector>

#include "backends/cpu/core/slots.h"
#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/depthwise_integer.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/conv/conv_integer.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/seen_taps.h"
#include "backends/cpu/core/activation.h"
#include "backends/cpu/core/epilogue.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/quantize/dynamic_quant.h"
#include "ops/common/quantized_pair.h"
#include "ops/conv/conv_shape.h"
#include "tensor/numeric.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// sum + x * w for numbers that fit in int16.
template <class D>
HWY_INLINE hn::Vec<D> add_product(D d, hn::Vec<D> sum, hn::Vec<D> x, hn::Vec<D> w) {
#if HWY_ARCH_X86
  // A product of 32 bits takes two instructions, one of pairs of 16 bits takes one: that of the high halves is zero.
  const hn::Repartition<int16_t, D> pairs;
  auto none = sum;
  return hn::ReorderWidenMulAccumulate(d, hn::BitCast(pairs, x), hn::BitCast(pairs, hn::And(w, hn::Set(d, 0xffff))),
                                       sum, none);
#else
  return hn::Add(sum, hn::Mul(x, w));
#endif
}

/// Channels [c0, c1), a multiple of the tag's lanes of them, of one row of output pixels. w: [taps][stride].
template <class T, class D>
void sum_channels(D d, const ConvShape& g, const T* image, int32_t zero, const int32_t* w, int64_t stride, int64_t oy,
                  int64_t c0, int64_t c1, int32_t* y) {
  const hn::Rebind<T, D> d8;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t pixel = g.all_in(), columns = g.kernel[2], next = g.stride[2] * pixel;
  const int64_t first_line = oy * g.stride[1] - g.pad[1];
  const auto lines = taps_inside(g, 1, oy);
  // Pixels [whole, end) see all columns of the filter.
  const int64_t end = seen(g, 2, columns - 1).second, whole = std::min(seen(g, 2, 0).first, end);
  constexpr int64_t kTogether = hn::MaxLanes(d) > 1 ? 4 : 1;  // pixels that share a filter's numbers
  for (int64_t c = c0; c < c1; c += lanes) {
    // Columns [first, last) of the filter at `count` pixels from ox on.
    const auto pixels = [&](auto count, int64_t ox, int64_t first, int64_t last) HWY_ATTR {
      constexpr int64_t kCount = decltype(count)::value;
      hn::Vec<D> sums[kCount];
#pragma GCC unroll 4
      for (int64_t p = 0; p < kCount; ++p) sums[p] = hn::Zero(d);
      auto of_taps = hn::Zero(d);
      for (int64_t ky = lines.first; ky < lines.second; ++ky) {
        const int64_t ix = ox * g.stride[2] - g.pad[2] + first * g.dilation[2];
        const T* x = image + ((first_line + ky * g.dilation[1]) * g.in[2] + ix) * pixel + c;
        const int32_t* of_tap = w + (ky * columns + first) * stride + c;
        for (int64_t kx = first; kx < last; ++kx, x += g.dilation[2] * pixel, of_tap += stride) {
          const auto tap = hn::LoadU(d, of_tap);
          of_taps = hn::Add(of_taps, tap);
#pragma GCC unroll 4
          for (int64_t p = 0; p < kCount; ++p)
            sums[p] = add_product(d, sums[p], hn::PromoteTo(d, hn::LoadU(d8, x + p * next)), tap);
        }
      }
      const auto less = hn::Mul(hn::Set(d, zero), of_taps);
#pragma GCC unroll 4
      for (int64_t p = 0; p < kCount; ++p) hn::StoreU(hn::Sub(sums[p], less), d, y + (ox + p) * pixel + c);
    };
    for (int64_t ox = 0; ox < g.out[2];) {
      if (kTogether > 1 && ox >= whole && ox + kTogether <= end) {
        pixels(std::integral_constant<int64_t, kTogether>(), ox, 0, columns);
        ox += kTogether;
        continue;
      }
      const auto inside = taps_inside(g, 2, ox);
      pixels(std::integral_constant<int64_t, 1>(), ox++, inside.first, inside.second);
    }
  }
}

template <class T>
void reduce_sum(const ConvShape& g, const T* image, int32_t zero, const int32_t* w, int64_t stride, int64_t oy,
                int32_t* y) {
  const int64_t n = g.all_in();
  // The last vector overlaps the one before. False for fewer channels than a vector has.
  const auto whole_vectors = [&](auto d) HWY_ATTR {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d));
    if (n < lanes) return false;
    sum_channels<T>(d, g, image, zero, w, stride, oy, 0, n / lanes * lanes, y);
    if (n % lanes != 0) sum_channels<T>(d, g, image, zero, w, stride, oy, n - lanes, n, y);
    return true;
  };
  const hn::ScalableTag<int32_t> d;
  if (whole_vectors(d)) return;
  if constexpr (hn::MaxLanes(d) > 4)
    if (whole_vectors(hn::Half<decltype(d)>())) return;
  whole_vectors(hn::CappedTag<int32_t, 1>());
}

void depthwise_acc_row(bool is_signed, const ConvShape& g, const uint8_t* image, int32_t zero, const int32_t* w,
                       int64_t stride, int64_t oy, int32_t* y) {
  if (is_signed)
    reduce_sum(g, reinterpret_cast<const int8_t*>(image), zero, w, stride, oy, y);
  else
    reduce_sum(g, image, zero, w, stride, oy, y);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

struct DepthwiseIntegerKey {
  FilterKey filter;
  std::vector<int32_t> zeros;
  auto operator<=>(const DepthwiseIntegerKey&) const = default;
};

/// The accumulators go out as they are, or rescaled by the params that an image of real numbers was quantized to
/// (dynamic_quant) or by a scale that is an operand (ConvInteger of a quantized filter).
class DepthwiseIntegerKernel final : public Kernel {
 public:
  /// `zeros`: one a channel; `scales`: one a channel where real numbers come out.
  DepthwiseIntegerKernel(const ConvShape& g, const KernelSpec& spec, const std::vector<int32_t>& zeros,
                         std::vector<float> scales)
      : g_(g),
        real_(!scales.empty()),
        dynamic_quant_(spec.node.op == Op::kConv),
        is_signed_(dynamic_quant_ || spec.inputs[0].dtype == DType::kI8),
        has_third_(spec.has(2)),
        attrs_(spec.attrs<ConvAttrs>()),
        stride_(round_up(g.groups, 16)),
        threads_(std::max(spec.threads, 1)),
        scales_(std::move(scales)),
        quant_(dynamic_quant_ops(spec.isa)),
        row_(SMELT_FOR_LEVEL(spec.isa, depthwise_acc_row)) {
    const Tensor& filter = *spec.constant(1);
    packed_ = spec.packs.get(DepthwiseIntegerKey{{g, filter, nullptr}, zeros}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(g.taps() * stride_) * sizeof(int32_t));
      for (int64_t c = 0; c < g.groups; ++c)
        for (int64_t t = 0; t < g.taps(); ++t)
          packed->data<int32_t>()[t * stride_ + c] =
              static_cast<int32_t>(get_int(filter, c * g.filter_o + t * g.filter_s)) -
              zeros[zeros.size() == 1 ? 0 : static_cast<size_t>(c)];
      return packed;
    });
    if (dynamic_quant_) quantized_ = padded_bytes(g.in_pixels() * g.all_in());
    if (real_) line_ = padded_bytes(g.out[2] * g.all_out() * 4);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(quantized_ + threads_ * line_); }
  bool take_epilogue(const EpilogueF32& epilogue) override {
    return real_ && clamps(attrs_.act) && epilogue_.take(epilogue);
  }
  Status run(KernelContext& ctx) const override {
    const int32_t zero = !dynamic_quant_ && has_third_ ? static_cast<int32_t>(get_int(ctx.input(2), 0)) : 0;
    uint8_t* scratch = nullptr;
    if (real_) {
      scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
      if (!scratch) return Error(ErrorCode::kLimit, "no memory for a depthwise convolution");
    }
    const int64_t size = g_.in_pixels() * g_.all_in(), line = g_.out[2] * g_.all_out();
    const EpilogueRun epilogue(epilogue_, ctx);
    for (int64_t image = 0; image < g_.batch; ++image) {
      QuantParams params;
      if (dynamic_quant_)
        params = quant_.quantize_row(ctx.input(0).data<float>() + image * size, size, attrs_.asymmetric_inputs,
                                     reinterpret_cast<int8_t*>(scratch));
      else if (real_)
        params.scale = ctx.input(3).data<float>()[0];
      const uint8_t* x = dynamic_quant_ ? scratch : ctx.input(0).data<uint8_t>() + image * size;
      in_slots(ctx.threads(), threads_, g_.out[1], [&](int64_t oy, int64_t slot) {
        const int64_t at = (image * g_.out[1] + oy) * line;
        auto* acc = real_ ? reinterpret_cast<int32_t*>(scratch + quantized_ + slot * line_)
                          : ctx.output(0).data<int32_t>() + at;
        row_(is_signed_, g_, x, dynamic_quant_ ? params.zero_point : zero, packed_->data<int32_t>(), stride_, oy, acc);
        if (!real_) return;
        float* const y = ctx.output(0).data<float>() + at;
        rescale(ctx, acc, params, y);
        if (epilogue) epilogue(y, g_.out[2], g_.all_out(), g_.all_out());
      });
    }
    return Ok();
  }

 private:
  void rescale(KernelContext& ctx, const int32_t* acc, const QuantParams& params, float* y) const {
    const Bounds bounds = activation_bounds(attrs_.act);
    const int64_t n = g_.all_out();
    const AccumulatorScales by{.column_sums = nullptr,
                               .scales = scales_.data(),
                               .bias = dynamic_quant_ && has_third_ ? ctx.input(2).data<float>() : nullptr,
                               .lo = bounds.lo,
                               .hi = bounds.hi};
    quant_.rescale(by, acc, n, g_.out[2], &params, 0, n, y, n);
    apply_activation(attrs_.act, y, g_.out[2], n, n);
  }

  ConvShape g_;
  bool real_, dynamic_quant_, is_signed_, has_third_;  ///< the third input: a bias (dynamic_quant) or x's zero point
  EpilogueF32 epilogue_;
  ConvAttrs attrs_;
  int64_t stride_, threads_, quantized_ = 0, line_ = 0;
  std::vector<float> scales_;
  const DynamicQuantOps& quant_;
  void (*row_)(bool, const ConvShape&, const uint8_t*, int32_t, const int32_t*, int64_t, int64_t, int32_t*);
  Packed packed_;
};

bool depthwise_rows(const std::optional<ConvShape>& g, const KernelSpec& spec) {
  return g && g->depthwise() && g->c_out == 1 && g->planar() && spec.outputs[0].shape.elements() > 0;
}

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_integer(const KernelSpec& spec) {
  if (spec.has(2) && spec.inputs[2].shape.elements() != 1) return spec.refuse("input 0 has more than one zero point");
  const auto g = ConvShape::in_lines({spec.node, spec.inputs.first(2), spec.constants, spec.outputs});
  if (!depthwise_rows(g, spec)) return nullptr;
  auto params = integer_weight_params(spec, g->all_out());
  if (!params) return spec.refuse("zero points or scales are neither one nor one an output channel");
  return std::make_unique<DepthwiseIntegerKernel>(*g, spec, params->zeros, std::move(params->scales));
}

[[gnu::cold]] std::unique_ptr<Kernel> make_depthwise_dynamic_quant(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const QuantPtr& q = spec.inputs[1].quant;
  if (!attrs.dynamic_quant) return spec.refuse("the node does not ask for dynamic quantization");
  const auto g = ConvShape::in_lines(spec);
  if (!depthwise_rows(g, spec)) return nullptr;
  const auto params = static_cast<int64_t>(q->scales.size());
  if (q->kind == Quantization::Kind::kPerAxis
          ? params != 1 && (params != g->groups || q->axis != filter_output_axis(attrs, spec.inputs[1].shape.rank()))
          : q->kind != Quantization::Kind::kPerTensor || params != 1)
    return nullptr;
  std::vector<float> scales;
  std::vector<int32_t> zeros;
  for (int64_t c = 0; c < g->groups; ++c) {
    scales.push_back(q->scale(params == 1 ? 0 : c));
    zeros.push_back(q->zero_point(params == 1 ? 0 : c));
  }
  return std::make_unique<DepthwiseIntegerKernel>(*g, spec, zeros, std::move(scales));
}

}  // namespace smelt
#endif
