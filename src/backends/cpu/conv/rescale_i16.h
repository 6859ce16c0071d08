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

/// How accumulators of 16-bit values times 8-bit weights become quantized 16-bit values. Pointers: of each channel.
struct RescaleI16Rule {
  enum class Kind : uint8_t {
    kWide16,        ///< rescale_wide() of 64-bit sums
    kNarrow,        ///< rescale_double() of 32-bit sums, which wrap
    kSingle,        ///< rescale_single() of 64-bit sums
    kNarrowSingle,  ///< rescale_single() of 32-bit sums, which wrap
  };
  Kind kind;
  int32_t zero, low, high;  ///< zero point; bounds of the result before it is added
  const int64_t* bias;
  const int64_t* multiplier;  ///< of 16 bits; this and the next ones: kWide16
  const int64_t* half;        ///< half of 2^shift
  const int64_t* shift;       ///< 1..62
  const FixedFactor* fixed;   ///< kNarrow
  const double* factor;       ///< the other kinds
};
/// y[i] of acc[i], i < n.
template <class Acc>
using RescaleI16Row = void (*)(const RescaleI16Rule& rule, const Acc* acc, int64_t n, int16_t* y);

/// Accumulators of 16-bit values times 8-bit weights as quantized 16-bit values: the bias is added, the sum rescaled by
/// the fixed-point factor of its channel as Requantizer does it, and clamped.
class RescaleI16 {
 public:
  /// For the first two inputs, the constant bias (input 2) and output 0 of a node with `channels` output channels.
  /// Returns nullopt where the rescaling is not in fixed point.
  [[gnu::cold]] static std::optional<RescaleI16> make(const KernelSpec& spec, int64_t channels,
                                                      const RescaleRule& rule);

  RescaleI16(RescaleI16&& from) noexcept;
  RescaleI16& operator=(RescaleI16&& from) = delete;
  ~RescaleI16();

  /// y[i] of acc[i], the accumulators of n channels from `channel` on.
  void operator()(const int32_t* acc, int64_t n, int64_t channel, int16_t* y) const {
    row_of_32_bits_(from(channel), acc, n, y);
  }
  void operator()(const int64_t* acc, int64_t n, int64_t channel, int16_t* y) const {
    row_of_64_bits_(from(channel), acc, n, y);
  }

  void add_to_bias(int64_t channel, int64_t value) { bias_[static_cast<size_t>(channel)] += value; }

 private:
  RescaleI16() = default;
  RescaleI16Rule from(int64_t channel) const;

  RescaleI16Rule::Kind kind_ = RescaleI16Rule::Kind::kWide16;
  int32_t zero_ = 0, low_ = 0, high_ = 0;
  std::vector<int64_t> bias_, multiplier_, half_, shift_;
  std::vector<FixedFactor> fixed_;
  std::vector<double> factor_;
  RescaleI16Row<int32_t> row_of_32_bits_ = nullptr;
  RescaleI16Row<int64_t> row_of_64_bits_ = nullptr;
};

/// The operands of a product of 16-bit values without a zero point and a constant filter of 8 bits, one scale for all
/// or one for each of `channels` entries along `axis`. nullopt: they are others, or the output is empty.
std::optional<QuantizedPair> pair_of_i16(const KernelSpec& spec, int axis, int64_t channels);

/// True if 32 bits hold every sum of products of 16-bit values with these weights.
bool fits_32_bits(std::span<const int16_t> weights);

}  // namespace smelt
