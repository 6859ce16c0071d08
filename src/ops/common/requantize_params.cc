#include "ops/common/requantize_params.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/common/fixed_point.h"
#include "ops/common/requantizer.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// Accumulators within [-most, most] rescaled are at risk where a multiplier that is some error of itself away from the
/// factor may round to the other side than rescale_single(): next to a tie, (k + 1/2) / factor. They are the integers
/// within `near` of (2k + 1) * `step`, k from 0 to `most`.
struct Ties {
  double step, near;

  Ties(double factor, double error, int64_t most) {
    constexpr double kFloat64 = 0x1p-50;  // of rescale_single() and of these computations
    step = 0.5 / factor;
    near = 2 * static_cast<double>(most + 1) * (error + kFloat64) * step;
  }
  bool few() const { return near >= 0 && near < 0.25; }
  double fraction_of_step() const { return step - static_cast<double>(static_cast<int64_t>(step)); }
};

/// The accumulators at risk that are not negative, in order. nullopt: too many.
std::optional<std::vector<int64_t>> accumulators_at_risk(const Ties& ties, int64_t most) {
  if (!ties.few()) return std::nullopt;
  const auto fixed = [](double v) { return static_cast<uint64_t>(v * 0x1p64); };  // of [0, 1), modulo 1
  const uint64_t part = fixed(ties.fraction_of_step()), margin = fixed(ties.near);
  std::vector<int64_t> out;
  for (int64_t k = 0; k <= most; ++k)
    if (part * static_cast<uint64_t>(2 * k + 1) + margin <= 2 * margin)
      out.push_back(std::llrint(static_cast<double>(2 * k + 1) * ties.step));
  return out;
}

/// The ties of the nearest multiplier.
Ties nearest_ties(double factor, FixedFactor fixed, int64_t most) {
  const double exact = factor * static_cast<double>(int64_t{1} << (31 - fixed.shift));
  return {factor, std::abs(fixed.multiplier - exact) / exact, most};
}

/// Most factors have no accumulators at risk with the nearest multiplier: this looks for others, up to
/// Progressions::kCount of them, by the upper 32 bits of (2k + 1) * step.
class RiskSearch {
 public:
  RiskSearch(int64_t most, LeastNumbers search) : most_(most), search_(search) {}
  bool full() const { return count_ == Progressions::kCount; }
  void add(size_t channel, double factor, FixedFactor fixed) {
    const Ties ties = nearest_ties(factor, fixed, most_);
    uint32_t first = 0, step = 0, limit = 1;
    if (ties.few()) {
      // The upper bits of the k-th product are at most 2k + 1 too low.
      const auto upper = [](double v) { return static_cast<uint32_t>(static_cast<int64_t>(v * 0x1p32)); };
      const uint32_t high = upper(ties.fraction_of_step());
      const uint32_t reach = upper(ties.near) + 2 * static_cast<uint32_t>(most_) + 3;
      first = high + reach;
      step = 2 * high;
      limit = 2 * reach + 1;
    }
    progressions_.first[count_] = first;
    progressions_.step[count_] = step;
    limits_[count_] = limit;
    channels_[count_++] = channel;
  }
  /// each(channel) of those that may have some.
  template <class Each>
  void run(const Each& each) {
    std::array<uint32_t, Progressions::kCount> least;
    if (count_ > 0) search_(progressions_, most_ + 1, least);
    for (size_t i = 0; i < count_; ++i)
      if (least[i] < limits_[i]) each(channels_[i]);
    count_ = 0;
  }

 private:
  int64_t most_;
  LeastNumbers search_;
  Progressions progressions_;
  std::array<uint32_t, Progressions::kCount> limits_;
  std::array<size_t, Progressions::kCount> channels_;
  size_t count_ = 0;
};

/// A multiplier near that of `fixed` with which fixed point, ties up, gives every result of rescale_single() within
/// [-most, most]. nullopt: none is known.
std::optional<int32_t> exact_multiplier(double factor, FixedFactor fixed, int64_t most) {
  if (factor == 0) return 0;
  const int total = 31 - fixed.shift;
  const auto agrees = [&](int64_t multiplier, const std::optional<std::vector<int64_t>>& at_risk) {
    const auto same = [&](int64_t v) {
      return (v * multiplier + (int64_t{1} << (total - 1))) >> total == rescale_single(v, factor);
    };
    return at_risk && multiplier <= INT32_MAX &&
           std::ranges::all_of(at_risk->begin(), at_risk->end(), [&](int64_t v) { return same(v) && same(-v); });
  };
  // The nearest multiplier mostly does, and few accumulators are at risk with it.
  if (agrees(fixed.multiplier, accumulators_at_risk(nearest_ties(factor, fixed, most), most))) return fixed.multiplier;
  // One more takes ties away from zero where the factor is a power of two.
  const auto at_risk = accumulators_at_risk({factor, 2.5 * 0x1p-30, most}, most);
  for (const int64_t change : {1, -1, 2, -2})
    if (agrees(fixed.multiplier + change, at_risk)) return static_cast<int32_t>(fixed.multiplier + change);
  return std::nullopt;
}

}  // namespace

void least_numbers(const Progressions& p, int64_t n, std::array<uint32_t, Progressions::kCount>& least) {
  // By vectors that every processor has; x86 compares signed numbers.
  using Lanes = int32_t __attribute__((vector_size(16)));
  using Words = uint32_t __attribute__((vector_size(16)));
  constexpr size_t kLanes = 4;
  const auto in = [](const uint32_t* from) {
    Words v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  };
  constexpr uint32_t kLeast = 0x80000000u;
  for (size_t i = 0; i < Progressions::kCount; i += 2 * kLanes) {
    Words a = in(&p.first[i]) + kLeast, b = in(&p.first[i + kLanes]) + kLeast;
    const Words step_a = in(&p.step[i]), step_b = in(&p.step[i + kLanes]);
    Lanes least_a = Lanes{} + INT32_MAX, least_b = least_a;
    for (int64_t k = 0; k < n; ++k, a += step_a, b += step_b) {
      const auto of_a = reinterpret_cast<Lanes>(a), of_b = reinterpret_cast<Lanes>(b);
      least_a = of_a < least_a ? of_a : least_a;
      least_b = of_b < least_b ? of_b : least_b;
    }
    const Words out_a = reinterpret_cast<Words>(least_a) + kLeast, out_b = reinterpret_cast<Words>(least_b) + kLeast;
    std::memcpy(&least[i], &out_a, sizeof(out_a));
    std::memcpy(&least[i + kLanes], &out_b, sizeof(out_b));
  }
}

bool RequantizeParams::make_exact(int64_t most, LeastNumbers search) {
  const auto repeats = [&](size_t c) { return c > 0 && double_factors[c] == double_factors[c - 1]; };
  RiskSearch at_risk(most, search);
  bool exact = true;
  const auto look_closer = [&](size_t c) {
    const auto multiplier = exact_multiplier(double_factors[c], {multipliers[c], -shifts[c]}, most);
    exact = exact && multiplier;
    if (multiplier) multipliers[c] = *multiplier;
  };
  for (size_t c = 0; c < double_factors.size(); ++c) {
    if (repeats(c)) continue;
    if (at_risk.full()) at_risk.run(look_closer);
    at_risk.add(c, double_factors[c], {multipliers[c], -shifts[c]});
  }
  at_risk.run(look_closer);
  for (size_t c = 0; c < double_factors.size(); ++c)
    if (repeats(c)) multipliers[c] = multipliers[c - 1];
  return exact;
}

bool RequantizeParams::set_factors(const RescaleFactors& of, size_t channels) {
  const size_t padded = channels + 64;
  if (rounding == Rounding::kFloatHalfEven) {
    factors.resize(padded);
  } else {
    if (rounding == Rounding::kDoubleHalfAway) double_factors.resize(padded);
    multipliers.resize(padded);
    shifts.resize(padded);
  }
  for (size_t c = 0, i = 0; c < channels; ++c, i = i + 1 == of.size() ? 0 : i + 1) {
    const float factor = of.factor(i);
    if (!std::isfinite(factor)) return false;
    if (rounding == Rounding::kFloatHalfEven) {
      factors[c] = factor;
      continue;
    }
    const double double_factor = of.double_factor(i);
    const FixedFactor fixed = fixed_factor(double_factor);
    if (rounding == Rounding::kFixedDouble && fixed.shift < -31) return false;
    if (rounding == Rounding::kDoubleHalfAway) double_factors[c] = double_factor;
    multipliers[c] = fixed.multiplier;
    shifts[c] = -fixed.shift;
  }
  return true;
}

void RequantizeParams::prepare(LeastNumbers search) {
  steps = Steps::kAll;
  if (rounding == Rounding::kFloatHalfEven) {
    const float limit = static_cast<float>(1 << 29) / static_cast<float>(std::max<int64_t>(reach, 1));
    if (std::ranges::all_of(factors, [&](float f) { return std::abs(f) < limit; })) steps = Steps::kSmall;
    return;
  }
  constexpr int32_t kMaxShift = 20, kMaxZero = 255;
  if (reach >= 1 << 29 || std::abs(zero) > kMaxZero ||
      std::ranges::any_of(shifts, [](int32_t s) { return s < 0 || s > kMaxShift; }))
    return;
  if (rounding == Rounding::kDoubleHalfAway) {
    const int64_t most = std::max(std::abs(int64_t{low} - zero), std::abs(int64_t{high} - zero)) + 1;
    if (!make_exact(most, search)) return;
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
  const bool symmetric = w.dtype == DType::kI8 && std::ranges::all_of(zeros, [](int32_t z) { return z == 0; });
  const int64_t terms = w.shape.elements() / std::max<int64_t>(channels, 1), term = 255 * (symmetric ? 128 : 384);
  if (terms > kMax / term) return kMax;
  int64_t most = 0;
  for (int32_t b : bias) most = std::max(most, std::abs(static_cast<int64_t>(b)));
  return std::min(kMax, terms * term + most);
}

/// The bias of every channel.
std::vector<int32_t> integers(const Tensor* bias, size_t channels) {
  if (!bias) return std::vector<int32_t>(channels);
  if (bias->elements() == 1) return std::vector<int32_t>(channels, static_cast<int32_t>(get_int(*bias, 0)));
  std::vector<int32_t> out(channels);
  if (bias->dtype() == DType::kI32)
    bias->copy_elements(0, static_cast<int64_t>(channels), out.data());
  else
    for (size_t c = 0; c < channels; ++c) out[c] = static_cast<int32_t>(get_int(*bias, static_cast<int64_t>(c)));
  return out;
}

}  // namespace

std::optional<RequantizeParams> RequantizeParams::make(const NodeSpec& spec, int64_t channels, const RescaleRule& rule,
                                                       LeastNumbers search) {
  const DType out = spec.outputs[0].dtype;
  if (out != DType::kI8 && out != DType::kU8) return std::nullopt;
  const Tensor* bias = spec.has(2) ? spec.constant(2) : nullptr;
  if (spec.has(2) && !bias) return std::nullopt;
  if (!spec.inputs[0].quant || !spec.inputs[1].quant || !spec.outputs[0].quant) return std::nullopt;
  const auto made = Requantizer::make_outline(type_only(spec.inputs[0]), type_only(spec.inputs[1]), bias,
                                              type_only(spec.outputs[0]), channels, rule);
  if (!made.ok() || !made->integer_only()) return std::nullopt;
  RequantizeParams r;
  r.rounding = rule.rounding;
  r.is_signed = out == DType::kI8;
  r.zero = static_cast<int32_t>(made->zero());
  r.low = static_cast<int32_t>(made->low());
  r.high = static_cast<int32_t>(made->high());
  if (std::abs(made->zero()) > (1 << 20)) return std::nullopt;
  const size_t count = static_cast<size_t>(channels);
  const RescaleFactors factors(*spec.inputs[0].quant, *spec.inputs[1].quant, spec.outputs[0].quant->scales[0], rule);
  if (!r.set_factors(factors, count)) return std::nullopt;
  r.bias = integers(bias, count);
  r.reach = largest_accumulator(spec.inputs[1], channels, r.bias);
  r.prepare(search);
  return r;
}

}  // namespace smelt
