#include "ops/common/requantize_params.h"

#include <algorithm>
#include <cmath>

#include "ops/common/requantizer.h"

namespace smelt {

void RequantizeParams::prepare() {
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

std::optional<RequantizeParams> RequantizeParams::make(const NodeSpec& spec, int64_t channels,
                                                       const RescaleRule& rule) {
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
  r.factors.resize(padded);
  r.multipliers.resize(padded);
  r.shifts.resize(padded);
  r.bias.resize(static_cast<size_t>(channels));
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    const float factor = made->factors()[c % made->factors().size()];
    const FixedFactor fixed = made->fixed()[c % made->fixed().size()];
    if (!std::isfinite(factor) || (rule.rounding != Rounding::kFloatHalfEven && fixed.shift < -31)) return std::nullopt;
    r.factors[c] = factor;
    r.multipliers[c] = fixed.multiplier;
    r.shifts[c] = -fixed.shift;
    const auto& b = made->bias();
    r.bias[c] = b.empty() ? 0 : static_cast<int32_t>(b[b.size() == 1 ? 0 : c]);
  }
  r.reach = largest_accumulator(spec.inputs[1], channels, r.bias);
  // A left shift wraps, as that of kFixedDouble does; kFixedSingle saturates.
  const int32_t left = -std::min(0, *std::min_element(r.shifts.begin(), r.shifts.end()));
  if (rule.rounding == Rounding::kFixedSingle && r.reach > INT32_MAX >> left) return std::nullopt;
  r.prepare();
  return r;
}

}  // namespace smelt
