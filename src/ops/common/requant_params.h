#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/common/enums.h"
#include "ops/core/node_spec.h"

namespace smelt {

/// How 32-bit sums become stored 8-bit integers, channel by channel: clamp(rescale(sum) + zero, low, high). Bit-equal
/// to Requantizer (ops/common/requantizer.h), which it is made from.
struct RequantParams {
  Rounding rounding = Rounding::kFloatHalfEven;
  std::vector<float> factors;        ///< one a channel; behind them zeros for whole vectors
  std::vector<int32_t> multipliers;  ///< fixed-point rules
  std::vector<int32_t> shifts;       ///< to the right, >= 0
  int32_t zero = 0, low = 0, high = 0;
  bool is_signed = true;      ///< int8, else uint8
  std::vector<int32_t> bias;  ///< one a channel, to be added to the sums before
  /// No sum is further from 0 (INT32_MAX: not known). Small sums are rescaled in fewer steps.
  int64_t reach = INT32_MAX;

  /// How much can be left out when sums are rescaled.
  enum class Steps : uint8_t {
    kAll,
    kSmall,     ///< no step of it leaves 32 bits: twice a sum, the zero point times 2^shift, ...
    kPositive,  ///< the same, and negative results are clamped to the zero point
  };
  Steps steps = Steps::kAll;
  std::vector<int32_t> halves;  ///< of kSmall and kPositive, one a channel: what is added before the shift

  /// Sets `steps` and `halves` from all the others.
  void prepare();

  /// nullopt: not this kind of output (then the reference kernel does it). `channels` are those of the output.
  static std::optional<RequantParams> make(const NodeSpec& spec, int64_t channels, const Activation& act,
                                           Rounding rounding, double alpha = 1);
};

}  // namespace smelt
