#include "backends/cpu/conv/rescale_i16.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "ops/common/requantizer.h"
#include "tensor/quant_params.h"

namespace smelt {

std::optional<RescaleI16> RescaleI16::make(const KernelSpec& spec, int64_t channels, const RescaleRule& rule) {
  const auto made = Requantizer::make(type_only(spec.inputs[0]), type_only(spec.inputs[1]), spec.constant(2),
                                      type_only(spec.outputs[0]), channels, rule);
  if (!made.ok() || !made->fixed_point()) return std::nullopt;
  RescaleI16 r;
  const bool single = rule.rounding == Rounding::kDoubleHalfAway;
  r.kind_ = made->wide() ? (single ? Kind::kSingle : Kind::kWide16) : (single ? Kind::kNarrowSingle : Kind::kNarrow);
  r.zero_ = made->zero();
  r.low_ = made->low();
  r.high_ = made->high();
  const std::vector<int64_t>& bias = made->bias();
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    Channel channel{};
    channel.factor = made->fixed()[c % made->fixed().size()];
    channel.double_factor = made->double_factors()[c % made->double_factors().size()];
    channel.bias = bias.empty() ? 0 : bias[bias.size() == 1 ? 0 : c];
    // Sums of products stay below 2^43.
    constexpr int64_t kMostBias = int64_t{1} << 40;
    if (channel.bias > kMostBias || channel.bias < -kMostBias) return std::nullopt;
    if (r.kind_ == Kind::kWide16) {  // wide_product() in 64 bits
      const int32_t multiplier = channel.factor.multiplier;
      channel.multiplier = multiplier < 0x7fff0000 ? (multiplier + (1 << 15)) >> 16 : 0x7fff;
      channel.shift = 15 - channel.factor.shift;
      if (channel.shift < 1) return std::nullopt;
      channel.half = int64_t{1} << (channel.shift - 1);
    }
    r.channels_.push_back(channel);
  }
  return r;
}

int16_t RescaleI16::clamped(int64_t q) const { return static_cast<int16_t>(std::clamp(q + zero_, low_, high_)); }

template <class Acc>
void RescaleI16::operator()(const Acc* acc, int64_t n, int64_t channel, int16_t* y) const {
  const Channel* const channels = channels_.data() + channel;
  const auto sum = [&](int64_t i) { return static_cast<int64_t>(acc[i]) + channels[i].bias; };
  switch (kind_) {
    case Kind::kWide16:
      for (int64_t i = 0; i < n; ++i) {
        const Channel& c = channels[i];
        y[i] = clamped((sum(i) * c.multiplier + c.half) >> c.shift);
      }
      return;
    case Kind::kNarrow:
      for (int64_t i = 0; i < n; ++i) y[i] = clamped(rescale_double(static_cast<int32_t>(sum(i)), channels[i].factor));
      return;
    case Kind::kSingle:
      for (int64_t i = 0; i < n; ++i) y[i] = clamped(rescale_single(sum(i), channels[i].double_factor));
      return;
    case Kind::kNarrowSingle:
      for (int64_t i = 0; i < n; ++i)
        y[i] = clamped(rescale_single(static_cast<int32_t>(sum(i)), channels[i].double_factor));
      return;
  }
}
template void RescaleI16::operator()(const int32_t*, int64_t, int64_t, int16_t*) const;
template void RescaleI16::operator()(const int64_t*, int64_t, int64_t, int16_t*) const;

std::optional<QuantizedPair> pair_of_i16(const KernelSpec& spec, int axis, int64_t channels) {
  const ValueType &x = spec.inputs[0], &y = spec.outputs[0];
  if (!is_per_tensor(x.quant) || !is_per_tensor(y.quant) || x.quant->zero_point() != 0 || y.shape.elements() == 0)
    return std::nullopt;
  // The filter is like one of 8-bit activations.
  ValueType bytes = ValueType::tensor(DType::kI8, x.shape);
  bytes.quant = x.quant;
  return QuantizedPair::make(bytes, spec.inputs[1], axis, channels);
}

bool fits_32_bits(std::span<const int16_t> weights) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max() / -std::numeric_limits<int16_t>::min();
  int64_t total = 0;
  for (const int16_t w : weights) total += std::abs(w);
  return total <= kMost;
}

}  // namespace smelt
