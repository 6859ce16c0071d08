#include "backends/cpu/gemm/gemm_i8.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "backends/cpu/core/kernel.h"

namespace smelt {
namespace {

TEST(GemmI8, BlocksOfRowsAreEvenAndStayInTheCache) {
  for (const Isa isa : machine_isas()) {
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

// Several blocks of rows, panels of both widths, tiles that prefetch and others.
TEST(GemmI8, LongRows) {
  constexpr int64_t kRows = 157, kColumns = 43, kDepth = 9001, kZero = 7;
  std::mt19937 gen(1);
  const auto fill = [&](auto& values, int low, int high) {
    for (auto& v : values) v = static_cast<std::decay_t<decltype(v)>>(std::uniform_int_distribution(low, high)(gen));
  };
  std::vector<uint8_t> x(kRows * kDepth + 64);
  std::vector<int8_t> weights(kColumns * kDepth);
  std::vector<int32_t> bias(kColumns), expected(kRows * kColumns);
  fill(x, 0, 255);
  fill(weights, -128, 127);
  fill(bias, -1000, 1000);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < kColumns; ++j) {
      int32_t sum = bias[static_cast<size_t>(j)];
      for (int64_t l = 0; l < kDepth; ++l) sum += (x[i * kDepth + l] - kZero) * weights[j * kDepth + l];
      expected[static_cast<size_t>(i * kColumns + j)] = sum;
    }
  for (const Isa isa : machine_isas())
    for (const bool fits : {true, false}) {
      const GemmI8& g = gemm_i8(isa, fits);
      ASSERT_LT(g.block_rows(kRows, kDepth), kRows);
      AlignedBuffer packed(static_cast<size_t>(g.packed_bytes(kDepth, kColumns))),
          a(static_cast<size_t>(kRows * g.a_row_bytes(kDepth)));
      g.pack(weights.data(), kDepth, kColumns, bias.data(), kZero, packed.data<char>());
      g.convert(x.data(), kDepth, kRows, kDepth, false, kZero, a.data<char>(), g.a_row_bytes(kDepth));
      int64_t seen = 0;
      g.run(kRows, kColumns, kDepth, a.data<char>(), g.a_row_bytes(kDepth), false, packed.data<char>(), 0,
            g.panels(kColumns), [&](const int32_t* acc, int64_t row, int64_t rows, int64_t column, int64_t columns) {
              for (int64_t i = 0; i < rows; ++i)
                for (int64_t j = 0; j < columns; ++j, ++seen)
                  ASSERT_EQ(acc[i * g.nr() + j], expected[static_cast<size_t>((row + i) * kColumns + column + j)])
                      << to_string(isa) << " row " << row + i << " column " << column + j;
            });
      EXPECT_EQ(seen, kRows * kColumns);
    }
}

}  // namespace
}  // namespace smelt
