#include "ops/common/requantize_params.h"

#include <algorithm>
#include <cmath>

#include "ops/common/requantizer.h"

namespace smelt {
namespace {

/// The integers from 0 to `most` for k with which (k + 1/2) / factor, `step` being half of 1 / factor, is within `near`
/// of an integer: those integers, in order.
std::vector<int64_t> integers_near_ties(double step, double near, int64_t most, AnyBelow search) {
  const auto fixed = [](double v) { return static_cast<uint64_t>(v * 0x1p64); };  // of [0, 1), modulo 1
  const uint64_t part = fixed(step - static_cast<double>(static_cast<int64_t>(step))), margin = fixed(near);
  // Most factors have none. The upper 32 bits of the k-th product are at most 2k + 1 too low.
  const auto high = static_cast<uint32_t>(part >> 32);
  const auto reach = static_cast<uint32_t>((margin >> 32) + 2 * static_cast<uint64_t>(most) + 3);
  std::vector<int64_t> out;
  if (!search(high + reach, 2 * high, most + 1, 2 * reach + 1)) return out;
  for (int64_t k = 0; k <= most; ++k)
    if (part * static_cast<uint64_t>(2 * k + 1) + margin <= 2 * margin)
      out.push_back(std::llrint(static_cast<double>(2 * k + 1) * step));
  return out;
}

/// The accumulators within [-most, most] rescaled for which a multiplier that is `error` of itself away from the factor
/// may round to the other side than rescale_single(): those next to a tie, (k + 1/2) / factor. nullopt: too many.
std::optional<std::vector<int64_t>> accumulators_at_risk(double factor, double error, int64_t most, AnyBelow search) {
  constexpr double kFloat64 = 0x1p-50;  // of rescale_single() and of these computations
  const double step = 0.5 / factor, near = 2 * static_cast<double>(most + 1) * (error + kFloat64) * step;
  if (!(near < 0.25)) return std::nullopt;
  return integers_near_ties(step, near, most, search);
}

/// A multiplier near that of `fixed` with which fixed point, ties up, gives every result of rescale_single() within
/// [-most, most]. nullopt: none is known.
std::optional<int32_t> exact_multiplier(double factor, FixedFactor fixed, int64_t most, AnyBelow search) {
  if (factor == 0) return 0;
  const int total = 31 - fixed.shift;
  const auto agrees = [&](int64_t multiplier, const std::optional<std::vector<int64_t>>& at_risk) {
    const auto same = [&](int64_t v) {
      return (v * multiplier + (int64_t{1} << (total - 1))) >> total == rescale_single(v, factor);
    };
    return at_risk && multiplier <= INT32_MAX &&
           std::all_of(at_risk->begin(), at_risk->end(), [&](int64_t v) { return same(v) && same(-v); });
  };
  // The nearest multiplier mostly does, and few accumulators are at risk with it.
  const double exact = factor * static_cast<double>(int64_t{1} << total);
  const double error = std::abs(fixed.multiplier - exact) / exact;
  if (agrees(fixed.multiplier, accumulators_at_risk(factor, error, most, search))) return fixed.multiplier;
  // One more takes ties away from zero where the factor is a power of two.
  const auto at_risk = accumulators_at_risk(factor, 2.5 * 0x1p-30, most, search);
  for (const int64_t change : {1, -1, 2, -2})
    if (agrees(fixed.multiplier + change, at_risk)) return static_cast<int32_t>(fixed.multiplier + change);
  return std::nullopt;
}

}  // namespace

bool any_below(uint32_t first, uint32_t step, int64_t n, uint32_t limit) {
  // By vectors that every processor has; x86 compares signed numbers.
  using Lanes = int32_t __attribute__((vector_size(16)));
  using Words = uint32_t __attribute__((vector_size(16)));
  constexpr uint32_t kLeast = 0x80000000u;
  Words a = first + kLeast + Words{0, step, 2 * step, 3 * step}, b = a + 4 * step;
  const Words stride = Words{} + 8 * step;
  const Lanes bound = Lanes{} + static_cast<int32_t>(limit + kLeast);
  Lanes below{};
  for (int64_t i = 0; i < n; i += 8, a += stride, b += stride)
    below |= (reinterpret_cast<Lanes>(a) < bound) | (reinterpret_cast<Lanes>(b) < bound);
  return (below[0] | below[1] | below[2] | below[3]) != 0;
}

void RequantizeParams::prepare(AnyBelow search) {
  steps = Steps::kAll;
  if (rounding == Rounding::kFloatHalfEven) {
    const float limit = static_cast<float>(1 << 29) / static_cast<float>(std::max<int64_t>(reach, 1));
    if (std::all_of(factors.begin(), factors.end(), [&](float f) { return std::abs(f) < limit; }))
      steps = Steps::kSmall;
    return;
  }
  constexpr int32_t kMaxShift = 20, kMaxZero = 255;
  if (reach >= 1 << 29 || std::abs(zero) > kMaxZero ||
      std::any_of(shifts.begin(), shifts.end(), [](int32_t s) { return s < 0 || s > kMaxShift; }))
    return;
  if (rounding == Rounding::kDoubleHalfAway) {
    const int64_t most = std::max(std::abs(int64_t{low} - zero), std::abs(int64_t{high} - zero)) + 1;
    for (size_t c = 0; c < double_factors.size(); ++c) {
      if (c > 0 && double_factors[c] == double_factors[c - 1]) {
        multipliers[c] = multipliers[c - 1];
        continue;
      }
      const auto multiplier = exact_multiplier(double_factors[c], {multipliers[c], -shifts[c]}, most, search);
      if (!multiplier) return;
      multipliers[c] = *multiplier;
    }
  }
  steps = low >= zero && rounding == Rounding::kFixedDouble ? Steps::kPositive : Steps::kSmall;
  offsets.resize(shifts.size());
  for (size_t c = 0; c < shifts.size(); ++c) offsets[c] = (1 << shifts[c] >> 1) + zero * (1 << shifts[c]);
}

namespace {

/// Bound of an accumulator's magnitude: products of 8-bit values, zero points subtracted, of `channels` columns of w,
/// plus `bias`.
int64_t largest_accumulator(const ValueType& w, int64_t channels, const std::vector<int32_t>& bias) {
  constexpr int64_t kMax = INT32_MAX;
  const auto& zeros = w.quant->zero_points;
  const bool symmetric =
      w.dtype == DType::kI8 && std::all_of(zeros.begin(), zeros.end(), [](int32_t z) { return z == 0; });
  const int64_t terms = w.shape.elements() / std::max<int64_t>(channels, 1), term = 255 * (symmetric ? 128 : 384);
  if (terms > kMax / term) return kMax;
  int64_t most = 0;
  for (int32_t b : bias) most = std::max(most, std::abs(static_cast<int64_t>(b)));
  return std::min(kMax, terms * term + most);
}

}  // namespace

std::optional<RequantizeParams> RequantizeParams::make(const NodeSpec& spec, int64_t channels, const RescaleRule& rule,
                                                       AnyBelow search) {
  const DType out = spec.outputs[0].dtype;
  if (out != DType::kI8 && out != DType::kU8) return std::nullopt;
  const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
  if (spec.has(2) && !bias) return std::nullopt;
  if (!spec.inputs[0].quant || !spec.inputs[1].quant || !spec.outputs[0].quant) return std::nullopt;
  const auto made = Requantizer::make(type_only(spec.inputs[0]), type_only(spec.inputs[1]), bias,
                                      type_only(spec.outputs[0]), channels, rule);
  if (!made.ok() || !made->integer_only()) return std::nullopt;
  RequantizeParams r;
  r.rounding = rule.rounding;
  r.is_signed = out == DType::kI8;
  r.zero = static_cast<int32_t>(made->zero());
  r.low = static_cast<int32_t>(made->low());
  r.high = static_cast<int32_t>(made->high());
  if (std::abs(made->zero()) > (1 << 20)) return std::nullopt;
  const size_t padded = static_cast<size_t>(channels) + 64;
  const bool is_fixed = rule.rounding != Rounding::kFloatHalfEven,
             is_double = rule.rounding == Rounding::kDoubleHalfAway;
  if (!is_fixed) r.factors.resize(padded);
  if (is_double) r.double_factors.resize(padded);
  if (is_fixed) r.multipliers.resize(padded);
  if (is_fixed) r.shifts.resize(padded);
  r.bias.resize(static_cast<size_t>(channels));
  const size_t factors = made->factors().size();
  for (size_t c = 0, i = 0; c < static_cast<size_t>(channels); ++c, i = i + 1 == factors ? 0 : i + 1) {
    const float factor = made->factors()[i];
    const FixedFactor fixed = made->fixed()[i];
    if (!std::isfinite(factor) || (rule.rounding == Rounding::kFixedDouble && fixed.shift < -31)) return std::nullopt;
    if (is_double) r.double_factors[c] = made->double_factors()[i];
    if (is_fixed) {
      r.multipliers[c] = fixed.multiplier;
      r.shifts[c] = -fixed.shift;
    } else {
      r.factors[c] = factor;
    }
    const auto& b = made->bias();
    r.bias[c] = b.empty() ? 0 : static_cast<int32_t>(b[b.size() == 1 ? 0 : c]);
  }
  r.reach = largest_accumulator(spec.inputs[1], channels, r.bias);
  r.prepare(search);
  return r;
}

}  // namespace smelt
