#include "backends/cpu/gemm/strassen_f32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backends/cpu/core/epilogue.h"
#include "base/cat.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// A product of random numbers with bias.
struct StrassenCase {
  int64_t m, n, k;
  std::vector<float> a, b, bias;

  StrassenCase(int64_t rows, int64_t columns, int64_t depth) : m(rows), n(columns), k(depth) {
    const auto numbers = [](Shape shape, uint64_t seed) {
      const Tensor t = random_tensor(DType::kF32, shape, -1, 1, seed);
      return std::vector<float>(t.data<float>(), t.data<float>() + t.elements());
    };
    a = numbers({m, k}, 1);
    b = numbers({k, n}, 2);
    bias = numbers({n}, 3);
  }
  float& a_at(int64_t i, int64_t at) { return a[static_cast<size_t>(i * k + at)]; }
  float& b_at(int64_t at, int64_t j) { return b[static_cast<size_t>(at * n + j)]; }

  double exact(int64_t i, int64_t j) const {
    double sum = bias[static_cast<size_t>(j)];
    for (int64_t at = 0; at < k; ++at)
      sum += double{a[static_cast<size_t>(i * k + at)]} * double{b[static_cast<size_t>(at * n + j)]};
    return sum;
  }

  /// By Strassen's algorithm where it can, the panels [first, last); 7 in all other results.
  std::vector<float> product(Isa isa, float lo, float hi, int64_t first, int64_t last) const {
    const GemmF32& gemm = gemm_f32(isa);
    const auto strassen = StrassenF32::make(StrassenSetting::kWhereItCan, gemm, isa, {m, n}, n, k);
    AlignedBuffer packed(static_cast<size_t>(gemm.packed_size(k, n)) * sizeof(float)),
        scratch(static_cast<size_t>(strassen->scratch_floats()) * sizeof(float));
    gemm.pack(b.data(), n, 1, k, n, bias.data(), packed.data<float>());
    std::vector<float> c(static_cast<size_t>(m * n), 7.0f), before;
    // The second run knows which panels are even, and gives the same bits.
    for (int run = 0; run < 2; ++run) {
      before = c;
      strassen->run(m, a.data(), k, packed.data<float>(), first, std::min(last, gemm.panels(n)), c.data(), n, lo, hi,
                    nullptr, scratch.data<float>());
    }
    EXPECT_EQ(std::memcmp(c.data(), before.data(), c.size() * sizeof(float)), 0);
    return c;
  }
};

std::vector<Isa> strassen_levels() {
  std::vector<Isa> all;
  for (const Isa isa : tested_isas())
    if (strassen_kernels(isa).lowest > 0) all.push_back(isa);
  return all;
}

constexpr int64_t kAll = 1000;

TEST(StrassenF32, ErrorsAreAFewRoundings) {
  for (const Isa isa : strassen_levels()) {
    const GemmF32& gemm = gemm_f32(isa);
    const int64_t part = 2 * gemm.depth;
    for (const int64_t m : {2 * gemm.mr, 6 * gemm.mr + 4, 7 * gemm.mr + 1, 40 * gemm.mr + 2})
      for (const int64_t n : {2 * gemm.nr(), 5 * gemm.nr() + 3})
        for (const int64_t k : {int64_t{4}, int64_t{100}, int64_t{2048}, part + 4, 2 * part + 8}) {
          if (m > 8 * gemm.mr && k > part + 4) continue;  // one large block is enough
          SCOPED_TRACE(Cat(to_string(isa), ": ", m, " x ", k, " x ", n));
          const StrassenCase p(m, n, k);
          const std::vector<float> c = p.product(isa, -kInf, kInf, 0, kAll);
          double errors = 0, squares = 0, worst = 0;
          for (int64_t i = 0; i < m; ++i)
            for (int64_t j = 0; j < n; ++j) {
              const double exact = p.exact(i, j), error = c[static_cast<size_t>(i * n + j)] - exact;
              errors += error * error;
              squares += exact * exact;
              worst = std::max(worst, std::abs(error));
            }
          EXPECT_LT(std::sqrt(errors / squares), 2e-6);
          const double parts = static_cast<double>(k) / static_cast<double>(part) + 1, depth = static_cast<double>(k);
          EXPECT_LT(worst, std::ldexp(1.0, -24) * (2 * depth + 10 * parts) * (9 * depth + 1));
        }
  }
}

TEST(StrassenF32, ResultsLieWithinBounds) {
  for (const Isa isa : strassen_levels()) {
    const StrassenCase p(6 * gemm_f32(isa).mr, 4 * gemm_f32(isa).nr(), 3 * gemm_f32(isa).depth / 4 * 4);
    const std::vector<float> all = p.product(isa, -kInf, kInf, 0, kAll), some = p.product(isa, -2, 3, 0, kAll);
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(some[i], std::clamp(all[i], -2.0f, 3.0f)) << i;
  }
}

TEST(StrassenF32, WritesThePanelsThatItIsAskedFor) {
  for (const Isa isa : strassen_levels()) {
    const int64_t nr = gemm_f32(isa).nr(), n = 8 * nr + 5;
    const StrassenCase p(4 * gemm_f32(isa).mr, n, 64);
    for (int64_t first = 0; first <= 9; ++first)
      for (int64_t last = first; last <= 9; ++last) {
        const std::vector<float> c = p.product(isa, -kInf, kInf, first, last);
        for (int64_t i = 0; i < p.m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            const float value = c[static_cast<size_t>(i * n + j)];
            if (j >= first * nr && j < last * nr)
              ASSERT_NEAR(value, p.exact(i, j), 1e-4) << first << ' ' << last << ' ' << i << ' ' << j;
            else
              ASSERT_EQ(value, 7.0f) << first << ' ' << last << ' ' << i << ' ' << j;
          }
      }
  }
}

/// The largest error of a row, or of a column, relative to the largest number in it.
double relative_error(const StrassenCase& p, const std::vector<float>& c, int64_t row, int64_t column) {
  double worst = 0, largest = 0;
  for (int64_t i = row < 0 ? 0 : row; i < (row < 0 ? p.m : row + 1); ++i)
    for (int64_t j = column < 0 ? 0 : column; j < (column < 0 ? p.n : column + 1); ++j) {
      worst = std::max(worst, std::abs(c[static_cast<size_t>(i * p.n + j)] - p.exact(i, j)));
      largest = std::max(largest, std::abs(p.exact(i, j)));
    }
  return worst / largest;
}

TEST(StrassenF32, SmallRowsAndColumnsTakeNoErrorFromLargeOnes) {
  for (const Isa isa : strassen_levels()) {
    const GemmF32& gemm = gemm_f32(isa);
    StrassenCase p(6 * gemm.mr, 4 * gemm.nr(), 256);
    std::fill(p.bias.begin(), p.bias.end(), 0.0f);
    const int64_t half = p.m / 2, nr = gemm.nr();
    for (int64_t at = 0; at < p.k; ++at) {
      p.a_at(1, at) *= 1e6f;
      p.a_at(half + gemm.mr, at) = 0;
      p.b_at(at, nr + 3) *= 1e-6f;
      p.b_at(at, 2 * nr) = 0;
    }
    const std::vector<float> c = p.product(isa, -kInf, kInf, 0, kAll);
    EXPECT_LT(relative_error(p, c, half + 1, -1), 1e-5);
    EXPECT_LT(relative_error(p, c, -1, nr + 3), 1e-5);
    for (int64_t j = 0; j < p.n; ++j) ASSERT_EQ(c[static_cast<size_t>((half + gemm.mr) * p.n + j)], 0.0f);
    for (int64_t i = 0; i < p.m; ++i) ASSERT_EQ(c[static_cast<size_t>(i * p.n + 2 * nr)], 0.0f);
  }
}

TEST(StrassenF32, EvenPairsBesideOthers) {
  for (const Isa isa : strassen_levels()) {
    const GemmF32& gemm = gemm_f32(isa);
    StrassenCase p(6 * gemm.mr, 8 * gemm.nr(), 256);
    for (int64_t at = 0; at < p.k; ++at) p.b_at(at, 5 * gemm.nr()) *= 1e4f;
    const std::vector<float> c = p.product(isa, -kInf, kInf, 0, kAll);
    for (int64_t j = 0; j < p.n; ++j) EXPECT_LT(relative_error(p, c, -1, j), 1e-5) << j;
  }
}

TEST(StrassenF32, WhatIsNotFiniteStaysInItsRowOrColumn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : strassen_levels()) {
    const GemmF32& gemm = gemm_f32(isa);
    for (const float value : {kInf, nan, 3e38f}) {
      StrassenCase p(6 * gemm.mr, 4 * gemm.nr(), 128);
      p.a_at(2, 5) = value;
      p.b_at(70, gemm.nr() + 1) = value;
      const std::vector<float> c = p.product(isa, -kInf, kInf, 0, kAll);
      for (int64_t i = 0; i < p.m; ++i)
        for (int64_t j = 0; j < p.n; ++j) {
          const float result = c[static_cast<size_t>(i * p.n + j)];
          const auto exact = static_cast<float>(p.exact(i, j));
          if (i == 2 || j == gemm.nr() + 1)
            ASSERT_TRUE(std::isfinite(exact) ? std::abs(result / exact - 1) < 1e-4 : !std::isfinite(result))
                << i << ' ' << j;
          else
            ASSERT_NEAR(result, exact, 1e-4) << i << ' ' << j;
        }
    }
  }
}

TEST(StrassenF32, IsMadeWhereItCanBe) {
  for (const Isa isa : strassen_levels()) {
    const GemmF32& gemm = gemm_f32(isa);
    const auto makes = [&](StrassenSetting setting, Isa level, int64_t m, int64_t n, int64_t k) {
      return StrassenF32::make(setting, gemm_f32(level), level, {m, n}, n, k) != nullptr;
    };
    EXPECT_TRUE(makes(StrassenSetting::kWhereItGains, isa, 512, 512, 512));
    EXPECT_FALSE(makes(StrassenSetting::kNever, isa, 512, 512, 512));
    EXPECT_FALSE(makes(StrassenSetting::kWhereItGains, isa, 512, 512, 514));
    EXPECT_FALSE(makes(StrassenSetting::kWhereItGains, isa, 2 * gemm.mr, 512, 512));
    EXPECT_FALSE(makes(StrassenSetting::kWhereItGains, isa, 512, 512, 64));
    EXPECT_FALSE(makes(StrassenSetting::kWhereItGains, isa, 512, 64, 512));
    EXPECT_TRUE(makes(StrassenSetting::kWhereItCan, isa, 2 * gemm.mr, 512, 512));
    EXPECT_FALSE(makes(StrassenSetting::kWhereItCan, isa.with(IsaFeature::kOneOrder), 512, 512, 512));
  }
}

TEST(StrassenF32, SettingsHaveNames) {
  EXPECT_EQ(*strassen_setting_named(nullptr), StrassenSetting::kWhereItGains);
  EXPECT_EQ(*strassen_setting_named("0"), StrassenSetting::kNever);
  EXPECT_EQ(*strassen_setting_named("1"), StrassenSetting::kWhereItGains);
  EXPECT_EQ(*strassen_setting_named("always"), StrassenSetting::kWhereItCan);
  EXPECT_EQ(strassen_setting_named("2").error().message(), "SMELT_CPU_STRASSEN is 2; it may be 0, 1, always");
}

}  // namespace
}  // namespace smelt
