// Convolutions of 16-bit values with 8-bit filters, channels-last (TFLite's 16x8): accumulators that 32 bits hold,
// rescaled in 64 as the reference kernel does.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/conv/conv_i16.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "backends/cpu/conv/conv_i16.h"
#include "backends/cpu/conv/filter_key.h"
#include "backends/cpu/conv/im2col.h"
#include "backends/cpu/core/kernel.h"
#include "backends/cpu/gemm/gemm_i8.h"
#include "backends/cpu/gemm/quantized_weights.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/requantizer.h"
#include "tensor/quant_params.h"

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// accumulators[c] = sum over taps of taps[t][c] * weights[t * n + c].
void tap_acc(const int16_t* const* taps, int64_t count, int64_t n, const int32_t* weights, int32_t* acc) {
  const auto step = [&](auto d, int64_t c) HWY_ATTR {
    const hn::Rebind<int16_t, decltype(d)> d16;
    auto sum = hn::Zero(d);
    for (int64_t t = 0; t < count; ++t)
      sum = hn::Add(sum, hn::Mul(hn::PromoteTo(d, hn::LoadU(d16, taps[t] + c)), hn::LoadU(d, weights + t * n + c)));
    hn::StoreU(sum, d, acc + c);
  };
  const hn::ScalableTag<int32_t> d;
  const hn::CappedTag<int32_t, 4> four;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t c = 0;
  for (; c + lanes <= n; c += lanes) step(d, c);
  for (; c + 4 <= n; c += 4) step(four, c);
  for (; c < n; ++c) step(hn::CappedTag<int32_t, 1>(), c);
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {
namespace {

/// rescale_wide() of accumulators with their bias, channel by channel, to quantized 16-bit values.
struct WideRescale {
  struct Channel {
    int64_t bias, multiplier, half;
    int32_t shift;
  };
  std::vector<Channel> channels;
  int64_t zero = 0, low = 0, high = 0;

  static std::optional<WideRescale> make(const KernelSpec& spec, int64_t n, const RescaleRule& rule) {
    if (rule.rounding != Rounding::kFixedDouble) return std::nullopt;
    const auto made = Requantizer::make(type_only(spec.inputs[0]), type_only(spec.inputs[1]), spec.constant(2),
                                        type_only(spec.outputs[0]), n, rule);
    if (!made.ok() || !made->fixed_point() || !made->wide()) return std::nullopt;
    WideRescale r;
    r.zero = made->zero();
    r.low = made->low();
    r.high = made->high();
    for (size_t c = 0; c < static_cast<size_t>(n); ++c) {
      const FixedFactor f = made->fixed()[c % made->fixed().size()];
      const auto& bias = made->bias();
      Channel channel{};
      channel.bias = bias.empty() ? 0 : bias[bias.size() == 1 ? 0 : c];
      channel.multiplier = f.multiplier < 0x7fff0000 ? (f.multiplier + (1 << 15)) >> 16 : 0x7fff;
      channel.shift = 15 - f.shift;
      if (channel.shift < 1 || std::abs(channel.bias) > int64_t{1} << 40) return std::nullopt;
      channel.half = int64_t{1} << (channel.shift - 1);
      r.channels.push_back(channel);
    }
    return r;
  }
  void operator()(const int32_t* acc, int64_t n, int64_t channel, int16_t* y) const {
    for (int64_t i = 0; i < n; ++i) {
      const Channel& c = channels[static_cast<size_t>(channel + i)];
      const int64_t q = ((acc[i] + c.bias) * c.multiplier + c.half) >> c.shift;
      y[i] = static_cast<int16_t>(std::clamp(q + zero, low, high));
    }
  }
};

/// True if 32 bits hold all accumulators of products with rows of `depth` weights.
bool acc_fits(const std::vector<int16_t>& weights, int64_t depth) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / -std::numeric_limits<int16_t>::min();
  int64_t total = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (i % static_cast<size_t>(depth) == 0) total = 0;
    total += std::abs(weights[i]);
    if (total > kMost) return false;
  }
  return true;
}

struct ConvI16Key {
  FilterKey filter;
  const GemmI8* gemm;
  auto operator<=>(const ConvI16Key&) const = default;
};

/// Rows of patches times packed filters.
class ConvI16 final : public Kernel {
 public:
  ConvI16(const ConvShape& g, const std::vector<int16_t>& weights, WideRescale rescale, const KernelSpec& spec)
      : g_(g),
        bytes_(g),
        rescale_(std::move(rescale)),
        gemm_(gemm_i8(spec.isa, false)),
        threads_(std::max(spec.threads, 1)) {
    bytes_.c_in *= 2;
    lda_ = gemm_.a_row_bytes(g.k());
    block_ = std::max<int64_t>(1, 64 * 1024 / std::max<int64_t>(1, lda_ * gemm_.mr)) * gemm_.mr;
    patches_ = padded_bytes(block_ * lda_ + kPatchSlack);
    const int64_t group = gemm_.packed_bytes(g.k(), g.c_out);
    packed_ = spec.packs.get(ConvI16Key{{g, *spec.constant(1), nullptr}, &gemm_}, [&] {
      auto packed = std::make_shared<AlignedBuffer>(static_cast<size_t>(group * g.groups));
      for (int64_t i = 0; i < g.groups; ++i)
        gemm_.pack(weights.data() + i * g.c_out * g.k(), g.k(), g.c_out, nullptr, 0, packed->data<char>() + i * group);
      return packed;
    });
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * patches_); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for the patches of a convolution");
    const int64_t blocks = (g_.out_pixels() + block_ - 1) / block_, slots = std::min(threads_, blocks);
    for (int64_t image = 0; image < g_.batch; ++image) {
      const auto* x = ctx.input(0).data<int16_t>() + image * g_.in_pixels() * g_.all_in();
      auto* y = ctx.output(0).data<int16_t>() + image * g_.out_pixels() * g_.all_out();
      ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
        for (int64_t slot = begin; slot < end; ++slot)
          for (int64_t b = blocks * slot / slots; b < blocks * (slot + 1) / slots; ++b)
            block(x, y, b, scratch + slot * patches_);
      });
    }
    return Ok();
  }

 private:
  void block(const int16_t* x, int16_t* y, int64_t index, uint8_t* patches) const {
    const int64_t first = index * block_, last = std::min(first + block_, g_.out_pixels());
    for (int64_t group = 0; group < g_.groups; ++group) {
      const auto* from = reinterpret_cast<const uint8_t*>(x + group * g_.c_in);
      im2col_rows<uint8_t>(bytes_, from, first, last, 0, patches, lda_);
      const char* packed = packed_->data<char>() + group * gemm_.packed_bytes(g_.k(), g_.c_out);
      gemm_.run(last - first, g_.c_out, g_.k(), patches, lda_, true, packed, 0, gemm_.panels(g_.c_out),
                [&](const int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t n) {
                  const int64_t channel = group * g_.c_out + column;
                  for (int64_t r = 0; r < rows; ++r)
                    rescale_(acc + r * gemm_.nr(), n, channel, y + (first + row + r) * g_.all_out() + channel);
                });
    }
  }

  ConvShape g_, bytes_;  ///< bytes_: the same with two channels of bytes each
  WideRescale rescale_;
  const GemmI8& gemm_;
  int64_t threads_, lda_ = 0, block_ = 1, patches_ = 0;
  Packed packed_;
};

/// One filter a channel.
class DepthwiseI16 final : public Kernel {
 public:
  DepthwiseI16(const ConvShape& g, const std::vector<int16_t>& weights, WideRescale rescale, const KernelSpec& spec)
      : g_(g),
        rescale_(std::move(rescale)),
        acc_(SMELT_FOR_LEVEL(spec.isa, tap_acc)),
        threads_(std::max(spec.threads, 1)) {
    weights_.resize(weights.size());
    for (int64_t c = 0; c < g.groups; ++c)
      for (int64_t t = 0; t < g.taps(); ++t)
        weights_[static_cast<size_t>(t * g.groups + c)] = weights[static_cast<size_t>(c * g.taps() + t)];
    slot_ = padded_bytes(g.groups * 4);
  }
  size_t scratch_bytes() const override { return static_cast<size_t>(threads_ * slot_ + padded_bytes(g_.groups * 2)); }
  Status run(KernelContext& ctx) const override {
    auto* scratch = static_cast<uint8_t*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return Error(ErrorCode::kLimit, "no memory for a depthwise convolution");
    auto* zeros = reinterpret_cast<int16_t*>(scratch + threads_ * slot_);
    std::fill_n(zeros, g_.groups, int16_t{0});
    const int64_t lines = g_.out[0] * g_.out[1], all = g_.batch * lines, slots = std::min(threads_, all);
    ctx.threads().parallel_for(slots, 1, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot)
        for (int64_t i = all * slot / slots; i < all * (slot + 1) / slots; ++i)
          line(ctx.input(0).data<int16_t>() + i / lines * g_.in_pixels() * g_.groups, i % lines, zeros,
               reinterpret_cast<int32_t*>(scratch + slot * slot_),
               ctx.output(0).data<int16_t>() + i * g_.out[2] * g_.groups);
    });
    return Ok();
  }
  static constexpr int64_t kMaxTaps = 128;

 private:
  void line(const int16_t* x, int64_t index, const int16_t* zeros, int32_t* acc, int16_t* y) const {
    const int16_t* taps[kMaxTaps];
    const int64_t z0 = index / g_.out[1] * g_.stride[0] - g_.pad[0], y0 = index % g_.out[1] * g_.stride[1] - g_.pad[1];
    for (int64_t ox = 0; ox < g_.out[2]; ++ox, y += g_.groups) {
      int64_t n = 0;
      for (int64_t kz = 0; kz < g_.kernel[0]; ++kz)
        for (int64_t ky = 0; ky < g_.kernel[1]; ++ky) {
          const int64_t iz = z0 + kz * g_.dilation[0], iy = y0 + ky * g_.dilation[1];
          const bool inside = iz >= 0 && iz < g_.in[0] && iy >= 0 && iy < g_.in[1];
          for (int64_t kx = 0; kx < g_.kernel[2]; ++kx) {
            const int64_t ix = ox * g_.stride[2] - g_.pad[2] + kx * g_.dilation[2];
            taps[n++] =
                inside && ix >= 0 && ix < g_.in[2] ? x + ((iz * g_.in[1] + iy) * g_.in[2] + ix) * g_.groups : zeros;
          }
        }
      acc_(taps, n, g_.groups, weights_.data(), acc);
      rescale_(acc, g_.groups, 0, y);
    }
  }

  ConvShape g_;
  WideRescale rescale_;
  void (*acc_)(const int16_t* const*, int64_t, int64_t, const int32_t*, int32_t*);
  int64_t threads_, slot_ = 0;
  std::vector<int32_t> weights_;  ///< [tap][channel]
};

/// A constant filter of 8 bits and 16-bit values of one set of quantization parameters without a zero point; nullopt:
/// they are others.
std::optional<QuantizedPair> wide_pair(const KernelSpec& spec, int axis, int64_t channels) {
  const ValueType &x = spec.inputs[0], &w = spec.inputs[1], &y = spec.outputs[0];
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.quant->zero_point() != 0 || y.shape.elements() == 0)
    return std::nullopt;
  // The filter is like one of 8-bit activations.
  ValueType bytes = ValueType::tensor(DType::kI8, x.shape);
  bytes.quant = x.quant;
  return QuantizedPair::make(bytes, w, axis, channels);
}

}  // namespace

std::unique_ptr<Kernel> make_i16_kernel(const KernelSpec& spec, const ConvShape& g, int axis, const RescaleRule& rule) {
  const auto q = wide_pair(spec, axis, g.all_out());
  if (!q) return nullptr;
  auto rescale = WideRescale::make(spec, g.all_out(), rule);
  if (!rescale) return nullptr;
  const auto weights = ordered_filter(g, *spec.constant(1), q->w_zeros);
  if (!acc_fits(weights, g.k())) return nullptr;
  if (g.depthwise() && g.c_out == 1 && g.taps() <= DepthwiseI16::kMaxTaps)
    return std::make_unique<DepthwiseI16>(g, weights, std::move(*rescale), spec);
  return std::make_unique<ConvI16>(g, weights, std::move(*rescale), spec);
}

std::unique_ptr<Kernel> make_conv_i16(const KernelSpec& spec) {
  const auto& attrs = spec.attrs<ConvAttrs>();
  const auto g = ConvShape::make(spec);
  if (!g) return nullptr;
  return make_i16_kernel(spec, *g, filter_output_axis(attrs, spec.inputs[1].shape.rank()), attrs.rescale_rule());
}

}  // namespace smelt
#endif
