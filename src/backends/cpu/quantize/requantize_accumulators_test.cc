#include "backends/cpu/quantize/requantize_accumulators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "ops/common/fixed_point.h"
#include "ops/matmul/matmul.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_case.h"
#include "tests/support/tested_levels.h"

namespace smelt {
namespace {

int64_t expected(const RequantizeParams& r, int32_t sum, size_t channel) {
  int64_t q;
  if (r.rounding == Rounding::kFloatHalfEven)
    q = static_cast<int64_t>(std::nearbyint(static_cast<float>(sum) * r.factors[channel]));
  else if (r.rounding == Rounding::kDoubleHalfAway)
    q = rescale_single(sum, r.double_factors[channel]);
  else
    q = rescale_double(sum, {r.multipliers[channel], -r.shifts[channel]});
  return std::clamp<int64_t>(q + r.zero, r.low, r.high);
}

/// `bits`: of the accumulators. The factors are from 2^left down to 2^(left - spread).
void check_every_level(int bits, bool rectified, int left, int spread) {
  constexpr int64_t kChannels = 37, kRows = 200;
  std::mt19937 gen(7);
  for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kDoubleHalfAway})
    for (bool is_signed : {true, false})
      for (bool whole_range : {true, false}) {
        RequantizeParams r;
        r.rounding = rounding;
        r.is_signed = is_signed;
        r.zero = is_signed ? -3 : 130;
        r.low = is_signed ? -128 : 0;
        r.high = is_signed ? 127 : whole_range ? 255 : 251;
        if (rectified) r.zero = r.low;
        if (bits < 32) r.reach = int64_t{1} << (bits - 1);
        r.factors.resize(kChannels + 64);
        r.double_factors.resize(kChannels + 64);
        r.multipliers.resize(kChannels + 64);
        r.shifts.resize(kChannels + 64);
        for (size_t c = 0; c < kChannels; ++c) {
          // Some factors are powers of two, where ties are common.
          const double factor = std::ldexp(c % 3 ? 0.5 + 0.5 * (gen() / 4294967296.0) : 0.5,
                                           left - static_cast<int>(c) % spread - (whole_range ? 1 : 0));
          const FixedFactor fixed = fixed_factor(factor);
          r.factors[c] = static_cast<float>(factor);
          r.double_factors[c] = factor;
          r.multipliers[c] = fixed.multiplier;
          r.shifts[c] = -fixed.shift;
        }
        r.prepare();
        if (rounding == Rounding::kDoubleHalfAway) {
          const bool may_be_small = bits < 30 && left == 0, is_small = r.steps == RequantizeParams::Steps::kSmall;
          EXPECT_TRUE(is_small ? may_be_small : !may_be_small || spread >= 14);
        }
        std::vector<int32_t> acc(kChannels * kRows + 16);
        for (size_t i = 0; i < acc.size(); ++i) {
          const int range = static_cast<int>(i / kChannels % 31);
          acc[i] = static_cast<int32_t>(gen()) >> std::max(range, 32 - bits);
        }
        for (size_t c = 0; c < kChannels; ++c) {
          acc[c] = std::numeric_limits<int32_t>::min() >> (32 - bits);
          acc[kChannels + c] = std::numeric_limits<int32_t>::max() >> (32 - bits);
          acc[2 * kChannels + c] = 0;
          acc[3 * kChannels + c] = c % 2 ? -1 : 1;
        }
        // Accumulators whose results are nearly ties.
        for (size_t i = 4 * kChannels; i < acc.size(); i += 5) {
          const auto c = i % kChannels;
          const double step = std::ldexp(1.0, r.shifts[c] + 31) / r.multipliers[c];
          const double sum = (static_cast<int>(gen() % 512) - 256 + 0.5) * step;
          if (std::fabs(sum) < static_cast<double>(r.reach) - 2)
            acc[i] = static_cast<int32_t>(sum) + static_cast<int>(gen() % 3) - 1;
        }
        // All channels, and an odd number of rows of as many as a tile has.
        for (const auto& [channels, rows] : {std::pair{kChannels, kRows}, std::pair{int64_t{32}, kRows - 1}})
          for (const Isa isa : test::tested_isas()) {
            std::vector<uint8_t> out(acc.size(), 77);
            requantize_accumulators(isa, r)(r, acc.data(), kChannels, rows, channels, 0, out.data(), kChannels);
            for (size_t i = 0; i < out.size(); ++i) {
              const auto channel = static_cast<int64_t>(i % kChannels), row = static_cast<int64_t>(i / kChannels);
              const int got = is_signed ? static_cast<int8_t>(out[i]) : out[i];
              const bool written = channel < channels && row < rows;
              ASSERT_EQ(got, written ? expected(r, acc[i], i % kChannels) : 77)
                  << to_string(rounding) << ' ' << to_string(isa) << " accumulator " << acc[i] << " channel " << channel
                  << " of " << channels << " row " << row << " shift " << r.shifts[i % kChannels];
            }
          }
      }
}

TEST(RequantizeParams, EveryLevelRoundsLikeTheReference) {
  for (bool rectified : {false, true}) check_every_level(32, rectified, 0, 31);
}

TEST(RequantizeParams, SmallSums) {
  for (int bits : {29, 18})
    for (int spread : {20, 12})
      for (bool rectified : {false, true}) check_every_level(bits, rectified, 0, spread);
}

TEST(RequantizeParams, EveryLevelFindsTheLeastNumbers) {
  std::mt19937 gen(3);
  for (const int64_t n : {0, 1, 2, 129, 300}) {
    Progressions p;
    std::array<uint32_t, Progressions::kCount> expected, least;
    for (size_t i = 0; i < Progressions::kCount; ++i) {
      p.first[i] = gen();
      p.step[i] = gen();
      expected[i] = UINT32_MAX;
      for (int64_t k = 0; k < n; ++k)
        expected[i] = std::min(expected[i], p.first[i] + static_cast<uint32_t>(k) * p.step[i]);
    }
    least_numbers(p, n, least);
    EXPECT_EQ(least, expected) << n;
    for (const Isa isa : test::tested_isas()) {
      least_numbers_for(isa)(p, n, least);
      EXPECT_EQ(least, expected) << n << ' ' << to_string(isa);
    }
  }
}

TEST(RequantizeParams, WhatFixedPointStandsForTakesNoMemory) {
  MatMulAttrs attrs;
  attrs.transpose_b = true;
  const test::OpCase c{.label = "8-bit product",
                       .op = Op::kMatMul,
                       .attrs = make_attrs<MatMulAttrs>(attrs),
                       .inputs = {test::random_quantized(DType::kI8, {4, 32}, 0.02f, 3, 1),
                                  test::random_quantized(DType::kI8, {8, 32}, 0.01f, 0, 2)},
                       .constants = {1},
                       .outputs = {ValueType::tensor(DType::kI8, {4, 8}, test::per_tensor(0.1f, 0))}};
  test::KernelRunner runner(c);
  PackCache packs(PackCache::Mode::kDry);
  const auto made = requantize_params(runner.spec(best_isa(), 1, packs), 8, {.rounding = Rounding::kDoubleHalfAway});
  ASSERT_TRUE(made);
  EXPECT_EQ(made->steps, RequantizeParams::Steps::kSmall);
  EXPECT_EQ(made->double_factors.capacity(), 0u);
}

TEST(RequantizeParams, FactorsAboveOne) {
  for (bool rectified : {false, true}) check_every_level(24, rectified, 6, 20);
}

}  // namespace
}  // namespace smelt
