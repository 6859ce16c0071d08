#include "backends/cpu/gemm/gemm_i8.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/core/kernel.h"
#include "tests/support/tested_levels.h"

namespace smelt {
namespace {

TEST(GemmI8, BlocksOfRowsAreEvenAndStayInTheCache) {
  for (const Isa isa : test::tested_isas()) {
    const GemmI8& g = gemm_i8(isa, true);
    for (const int64_t k : {1, 64, 4608, 100000})
      for (const int64_t m : {1, 14, 49, 196, 3136}) {
        const int64_t block = g.block_rows(m, k), blocks = (m + block - 1) / block;
        EXPECT_EQ(block % g.mr, 0) << m << " rows of " << k;
        EXPECT_TRUE(block == g.mr || block * g.a_row_bytes(k) <= g.block_bytes * 4 / 3) << m << " rows of " << k;
        EXPECT_LT(blocks * block - m, blocks * g.mr) << m << " rows of " << k;
      }
  }
}

/// A product of random bytes of either sign, and what it is by definition.
struct Product {
  int64_t m, n, k;
  bool a_signed;
  int32_t zero;
  std::vector<uint8_t> x;
  std::vector<int8_t> weights;
  std::vector<int32_t> bias, expected;

  Product(int64_t rows, int64_t columns, int64_t depth, bool is_signed, int32_t zero_point)
      : m(rows),
        n(columns),
        k(depth),
        a_signed(is_signed),
        zero(zero_point),
        x(size(m * k + 64)),
        weights(size(n * k)),
        bias(size(n)),
        expected(size(m * n)) {
    std::mt19937 gen(static_cast<uint32_t>(m * 1000003 + n * 1009 + k));
    const auto fill = [&](auto& values, int low, int high) {
      for (auto& v : values) v = static_cast<std::decay_t<decltype(v)>>(std::uniform_int_distribution(low, high)(gen));
    };
    fill(x, 0, 255);
    fill(weights, -128, 127);
    fill(bias, -1000, 1000);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        int32_t sum = bias[size(j)];
        for (int64_t l = 0; l < k; ++l) {
          const uint8_t byte = x[size(i * k + l)];
          sum += ((a_signed ? static_cast<int8_t>(byte) : byte) - zero) * weights[size(j * k + l)];
        }
        expected[size(i * n + j)] = sum;
      }
  }
  static size_t size(int64_t n) { return static_cast<size_t>(n); }

  void check(const GemmI8& g, Isa isa, bool flipped = false) const {
    AlignedBuffer packed(size(g.packed_bytes(k, n))), a(size(m * g.a_row_bytes(k)));
    g.pack(weights.data(), k, n, bias.data(), GemmI8::int8_zero_point(a_signed, zero), packed.data<char>());
    for (int64_t i = 0; i < m; ++i)
      g.convert(x.data() + i * k, k, 1, k, a_signed, zero, a.data<char>() + i * g.a_row_bytes(k), g.a_row_bytes(k),
                flipped);
    int64_t seen = 0;
    g.run(m, n, k, a.data<char>(), g.a_row_bytes(k), a_signed && !flipped, packed.data<char>(), 0, g.panels(n),
          [&](const int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t columns) {
            for (int64_t i = 0; i < rows; ++i)
              for (int64_t j = 0; j < columns; ++j, ++seen)
                ASSERT_EQ(acc[i * g.nr() + j], expected[size((row + i) * n + column + j)])
                    << to_string(isa) << (a_signed ? " int8 " : " uint8 ") << m << "x" << k << "x" << n << " row "
                    << row + i << " column " << column + j;
          });
    EXPECT_EQ(seen, m * n);
  }
};

// Several blocks of rows, panels of both widths, tiles that prefetch and others.
TEST(GemmI8, LongRows) {
  const Product product(157, 43, 9001, false, 7);
  for (const Isa isa : test::tested_isas())
    for (const bool fits : {true, false}) {
      const GemmI8& g = gemm_i8(isa, fits);
      ASSERT_LT(g.block_rows(product.m, product.k), product.m);
      product.check(g, isa);
    }
}

// Tiles of each height, of either sign, with depths that fill their instructions, divide into equal parts, or do not.
TEST(GemmI8, EveryHeightOfTiles) {
  for (int64_t m = 1; m <= 34; ++m)
    for (const int64_t k : {1, 61, 64, 96, 132, 259})
      for (const bool a_signed : {false, true})
        for (const int64_t n : {m % 2 ? 45 : 16, m % 2 ? 40 : 5}) {
          const Product product(m, n, k, a_signed, a_signed ? -3 : 129);
          for (const Isa isa : test::tested_isas())
            for (const bool fits : {true, false}) product.check(gemm_i8(isa, fits), isa);
        }
}

// Single rows, by several panels at once and what is left of them.
TEST(GemmI8, SingleRows) {
  for (const int64_t n : {128, 160, 300, 400})
    for (const int64_t k : {1, 61, 64, 132, 520})
      for (const bool a_signed : {false, true}) {
        const Product product(1, n, k, a_signed, a_signed ? -3 : 129);
        for (const Isa isa : test::tested_isas())
          for (const bool fits : {true, false}) product.check(gemm_i8(isa, fits), isa);
      }
}

// Rows of int8 with flipped sign bits are uint8 whose accumulators are the same.
TEST(GemmI8, FlippedRows) {
  for (const int64_t k : {1, 63, 64, 200})
    for (const Isa isa : test::tested_isas())
      if (const GemmI8& g = gemm_i8(isa, true); g.flip) {
        const Product product(15, 45, k, true, -3);
        product.check(g, isa, true);
      }
}

}  // namespace
}  // namespace smelt
