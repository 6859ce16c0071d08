#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "ops/common/fixed_point.h"
#include "ops/common/quantized_pair.h"
#include "ops/common/rescale_rule.h"

namespace smelt {

/// Accumulators of 16-bit values times 8-bit weights as quantized 16-bit values: the bias is added, the sum rescaled by
/// the fixed-point factor of its channel as Requantizer does it, and clamped.
class RescaleI16 {
 public:
  /// For the first two inputs, the constant bias (input 2) and output 0 of a node with `channels` output channels.
  /// Returns nullopt where the rescaling is not in fixed point.
  [[gnu::cold]] static std::optional<RescaleI16> make(const KernelSpec& spec, int64_t channels,
                                                      const RescaleRule& rule);

  /// y[i] of acc[i], the accumulators of n channels from `channel` on.
  template <class Acc>
  void operator()(const Acc* acc, int64_t n, int64_t channel, int16_t* y) const;

 private:
  struct Channel {
    int64_t bias, multiplier, half;  ///< multiplier of 16 bits
    int32_t shift;
    FixedFactor factor;
    double double_factor;
  };
  enum class Kind : uint8_t {
    kWide16,        ///< rescale_wide() of 64-bit sums
    kNarrow,        ///< rescale_double() of 32-bit sums, which wrap
    kSingle,        ///< rescale_single() of 64-bit sums
    kNarrowSingle,  ///< rescale_single() of 32-bit sums, which wrap
  };
  int16_t clamped(int64_t q) const;

  std::vector<Channel> channels_;
  Kind kind_ = Kind::kWide16;
  int64_t zero_ = 0, low_ = 0, high_ = 0;
};

/// The operands of a product of 16-bit values without a zero point and a constant filter of 8 bits, one scale for all
/// or one for each of `channels` entries along `axis`. nullopt: they are others, or the output is empty.
std::optional<QuantizedPair> pair_of_i16(const KernelSpec& spec, int axis, int64_t channels);

/// True if 32 bits hold every sum of products of 16-bit values with these weights.
bool fits_32_bits(std::span<const int16_t> weights);

}  // namespace smelt
