#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpu/kernel.h"
#include "ops/common/enums.h"

namespace smelt {

/// How 32-bit sums become stored 8-bit integers, channel by channel: clamp(rescale(sum) + zero, low, high). Bit-equal
/// to Requantizer (ops/common/requantize.h), which it is made from.
struct Requant {
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
  static std::optional<Requant> make(const KernelSpec& spec, int64_t channels, const Activation& act, Rounding rounding,
                                     double alpha = 1);
};

/// Rescales `rows` rows of n sums, `stride` apart; the first is channel `channel`. Whole vectors are read: up to 64
/// bytes behind the last sum must be readable.
using RequantRows = void (*)(const Requant& r, const int32_t* sums, int64_t stride, int64_t rows, int64_t n,
                             int64_t channel, uint8_t* out, int64_t out_stride);
/// For `r` and what has the same rounding, type, range and steps.
RequantRows requant_rows(Isa isa, const Requant& r);

}  // namespace smelt
