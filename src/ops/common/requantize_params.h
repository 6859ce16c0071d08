#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/common/rescale_rule.h"
#include "ops/core/node_spec.h"

namespace smelt {

class RescaleFactors;

/// Arithmetic progressions modulo 2^32.
struct Progressions {
  static constexpr size_t kCount = 64;
  alignas(64) std::array<uint32_t, kCount> first{}, step{};
};
/// Of every progression the least of its first n numbers. Back-ends have faster ones than least_numbers().
using LeastNumbers = void (*)(const Progressions&, int64_t n, std::array<uint32_t, Progressions::kCount>& least);
void least_numbers(const Progressions& p, int64_t n, std::array<uint32_t, Progressions::kCount>& least);

/// The requantization of a back-end's kernel as plain arrays: int32 accumulators become 8-bit quantized integers,
/// channel by channel, as clamp(rescale(accumulator + bias) + zero, low, high). It covers the common case alone and
/// equals Requantizer (ops/common/requantizer.h) bit by bit; Requantizer is the reference for every case.
struct RequantizeParams {
  Rounding rounding = Rounding::kFloatHalfEven;
  // One a channel, then zeros up to whole vectors; empty where the rule has no use for them.
  std::vector<float> factors;          ///< kFloatHalfEven
  std::vector<double> double_factors;  ///< kDoubleHalfAway; used with Steps::kAll alone
  std::vector<int32_t> multipliers;    ///< other rules in fixed point
  std::vector<int32_t> shifts;         ///< to the right; negative: to the left, with Steps::kAll alone
  int32_t zero = 0, low = 0, high = 0;
  bool is_signed = true;      ///< int8, else uint8
  std::vector<int32_t> bias;  ///< one a channel, added to the accumulators first
  /// Bound of the accumulators' magnitude; INT32_MAX: not known. Small accumulators are rescaled in fewer steps.
  int64_t reach = INT32_MAX;

  /// Which steps of the rescaling may be left out. kDoubleHalfAway is float64 with all steps, else fixed point.
  enum class Steps : uint8_t {
    kAll,       ///< none
    kSmall,     ///< those against overflow: no intermediate value leaves 32 bits
    kPositive,  ///< as kSmall, and those for negative values, which `low` clamps to the zero point
  };
  Steps steps = Steps::kAll;
  std::vector<int32_t> offsets;  ///< kSmall, kPositive: one a channel, rounding offset and zero point before the shift

  /// Sets `steps` and `offsets` from the other fields. kDoubleHalfAway: `multipliers`, too, to such that fixed point
  /// gives the results of float64; where there are none, `steps` is kAll.
  [[gnu::hot]] void prepare(LeastNumbers search = least_numbers);

  /// Parameters of a Conv or MatMul node of quantized operands with `channels` output channels. nullopt: the output is
  /// not 8-bit, or the rescaling is not of this form; the reference kernel then runs the node.
  static std::optional<RequantizeParams> make(const NodeSpec& spec, int64_t channels, const RescaleRule& rule,
                                              LeastNumbers search = least_numbers);

 private:
  // Hot: they run once a channel, and compilers take what constructors of kernels call for cold.
  /// Sets what `rounding` has of every channel. False if a factor is out of range.
  [[gnu::hot]] bool set_factors(const RescaleFactors& of, size_t channels);
  /// Sets `multipliers` for accumulators within [-most, most] rescaled. False if there are none that agree.
  [[gnu::hot]] bool make_exact(int64_t most, LeastNumbers search);
};

}  // namespace smelt
