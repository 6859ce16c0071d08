#include <cmath>
#include <limits>
#include <vector>

#include "backends/cpu/gemm/gemm_f32.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// bf16_isas(), and each with sums in one order.
std::vector<Isa> bf16_levels() {
  std::vector<Isa> levels;
  for (const Isa isa : bf16_isas()) levels.insert(levels.end(), {isa, isa.with(IsaFeature::kOneOrder)});
  return levels;
}

/// a b of rows by columns, a and b row by row, by the product in bfloat16.
std::vector<float> product(Isa isa, const std::vector<float>& a, const std::vector<float>& b, int64_t rows, int64_t k,
                           int64_t n) {
  const GemmF32& g = gemm_bf16(isa);
  const int64_t words = g.words(k);
  std::vector<float> y(static_cast<size_t>(rows * n));
  AlignedBuffer a_words(static_cast<size_t>(rows * words) * 4),
      packed(static_cast<size_t>(g.packed_size(words, n)) * 4);
  for (int64_t r = 0; r < rows; ++r) g.to_words(a.data() + r * k, k, a_words.data<float>() + r * words);
  g.pack(b.data(), n, 1, k, n, nullptr, packed.data<float>());
  constexpr float kInf = std::numeric_limits<float>::infinity();
  g.run(rows, n, words, a_words.data<float>(), words, packed.data<float>(), 0, g.panels(n), y.data(), n, nullptr, -kInf,
        kInf);
  return y;
}

struct Sizes {
  int64_t rows, k, n;
};

void expect_within_bound(Isa isa, const std::vector<float>& a, const std::vector<float>& b, Sizes s) {
  const auto y = product(isa, a, b, s.rows, s.k, s.n);
  for (int64_t i = 0; i < s.rows; ++i)
    for (int64_t j = 0; j < s.n; ++j) {
      double exact = 0, sum = 0;
      for (int64_t l = 0; l < s.k; ++l) {
        const double p = static_cast<double>(a[static_cast<size_t>(i * s.k + l)]) * b[static_cast<size_t>(l * s.n + j)];
        exact += p;
        sum += std::abs(p);
      }
      const double bound = (std::ldexp(1, -7) + static_cast<double>(s.k + 2) * std::ldexp(1, -22)) * sum;
      ASSERT_LE(std::abs(y[static_cast<size_t>(i * s.n + j)] - exact), bound) << i << ", " << j;
    }
}

TEST(GemmBf16, ResultsAreWithinTheErrorBound) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  for (const Isa isa : bf16_levels())
    for (const Sizes s : {Sizes{1, 1, 1},
                          {3, 33, 17},
                          {15, 64, 33},
                          {29, 1001, 40},
                          {2, 4097, 16},
                          {33, 50, 31},
                          {32, 32, 32},
                          {70, 4601, 65},
                          {17, 8300, 48}})
      for (const auto& [lo, hi] : {std::pair{-1.0, 1.0}, {-1e15, 1e15}, {1e-15, 2e-15}, {0.7, 0.7}}) {
        const Tensor a = random_tensor(DType::kF32, {s.rows, s.k}, lo, hi, 1);
        const Tensor b = random_tensor(DType::kF32, {s.k, s.n}, lo, hi, 2);
        expect_within_bound(isa, {a.data<float>(), a.data<float>() + a.elements()},
                            {b.data<float>(), b.data<float>() + b.elements()}, s);
      }
}

TEST(GemmBf16, NotFiniteStaysNotFinite) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();
  for (const Isa isa : bf16_levels()) {
    EXPECT_EQ(product(isa, {kInf, 1, 1}, {2, 3, 4}, 1, 3, 1)[0], kInf);
    EXPECT_TRUE(std::isnan(product(isa, {1, kNan, 1}, {2, 3, 4}, 1, 3, 1)[0]));
    EXPECT_TRUE(std::isnan(product(isa, {1, 1, 1}, {2, 3, kNan}, 1, 3, 1)[0]));
    // Beyond bfloat16's largest number, which is below float32's.
    EXPECT_EQ(product(isa, {std::numeric_limits<float>::max()}, {1}, 1, 1, 1)[0], kInf);
  }
}

// Infinity times zeros that stand behind the end of K would be no number.
TEST(GemmBf16, InfinityStaysInItsColumnAndRow) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr int64_t kRows = 20, kColumns = 40;
  for (const Isa isa : bf16_levels())
    for (const int64_t k : {31, 34, 50, 101})
      for (const int64_t place : {int64_t{0}, k / 2, k - 1}) {
        std::vector<float> a(kRows * static_cast<size_t>(k), 1), b(kColumns * static_cast<size_t>(k), 2);
        a[static_cast<size_t>(3 * k + place)] = kInf;
        b[static_cast<size_t>(place * kColumns + 5)] = kInf;
        const auto y = product(isa, a, b, kRows, k, kColumns);
        for (int64_t i = 0; i < kRows; ++i)
          for (int64_t j = 0; j < kColumns; ++j)
            ASSERT_EQ(y[static_cast<size_t>(i * kColumns + j)], i == 3 || j == 5 ? kInf : static_cast<float>(2 * k))
                << to_string(isa) << ", k " << k << ": " << i << ", " << j;
      }
}

// The order of sums is that of one row, however many there are and whatever stands behind them.
TEST(GemmBf16, OneOrderWhateverTheTile) {
  if (!machine_has(Isa::kBf16)) GTEST_SKIP() << "this machine has no AVX-512 BF16";
  constexpr int64_t kRows = 70, kDepth = 205, kColumns = 44;
  const Tensor a = random_tensor(DType::kF32, {kRows, kDepth}, -1, 1, 1);
  const Tensor b = random_tensor(DType::kF32, {kDepth, kColumns}, -1, 1, 2);
  const std::vector<float> columns(b.data<float>(), b.data<float>() + b.elements());
  const auto rows_of_a = [&](int64_t n) { return std::vector<float>(a.data<float>(), a.data<float>() + n * kDepth); };
  for (const Isa level : bf16_isas()) {
    const Isa isa = level.with(IsaFeature::kOneOrder);
    const auto all = product(isa, rows_of_a(kRows), columns, kRows, kDepth, kColumns);
    for (int64_t rows = 1; rows < kRows; ++rows) {
      const auto some = product(isa, rows_of_a(rows), columns, rows, kDepth, kColumns);
      ASSERT_TRUE(std::equal(some.begin(), some.end(), all.begin())) << to_string(level) << ", rows " << rows;
    }
  }
}

}  // namespace
}  // namespace smelt
