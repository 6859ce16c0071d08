#include "backends/cpu/gemm/gemm_f32.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "backends/cpu/gemm/pack_constant.h"
#include "base/cat.h"
#include "base/packing_threads.h"
#include "base/thread_pool.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// Equal columns of b give equal columns of c, bit by bit, also where the last panel is narrower than those before.
TEST(GemmF32, EqualColumnsGiveEqualResults) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Isa isa : tested_isas()) {
    const GemmF32& gemm = gemm_f32(isa);
    for (const int64_t m : {int64_t{1}, int64_t{3}, gemm.mr - 1, gemm.mr, 3 * gemm.mr + 2})
      for (const int64_t n : {gemm.lanes, gemm.nr() + 1, 3 * gemm.nr() + gemm.lanes, 3 * gemm.nr() + gemm.lanes + 1}) {
        SCOPED_TRACE(Cat(to_string(isa), ": ", m, " x ", n));
        constexpr int64_t k = 500;
        const Tensor a = random_tensor(DType::kF32, {m, k}, -1, 1, 1),
                     column = random_tensor(DType::kF32, {k}, -1, 1, 2);
        AlignedBuffer packed(static_cast<size_t>(gemm.packed_size(k, n)) * sizeof(float));
        std::vector<float> c(static_cast<size_t>(m * n));
        gemm.pack(column.data<float>(), 1, 0, k, n, nullptr, packed.data<float>());
        gemm.run(m, n, k, a.data<float>(), k, packed.data<float>(), 0, gemm.panels(n), c.data(), n, nullptr, -kInf,
                 kInf);
        for (int64_t i = 0; i < m; ++i) {
          const auto row = c.begin() + i * n;
          EXPECT_EQ(std::count(row, row + n, *row), n) << "row " << i;
        }
      }
  }
}

/// A product has the bits of one with more columns, whatever tiles make it.
TEST(GemmF32, FewerColumnsGiveTheSameBits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Isa isa : tested_isas()) {
    const GemmF32& gemm = gemm_f32(isa);
    const int64_t k = gemm.depth * 2 + 3, whole = 2 * gemm.nr();
    const Tensor a = random_tensor(DType::kF32, {3 * gemm.mr, k}, -1, 1, 1),
                 b = random_tensor(DType::kF32, {k, whole}, -1, 1, 2),
                 bias = random_tensor(DType::kF32, {whole}, -1, 1, 3);
    const auto product = [&](int64_t m, int64_t n, const float* row_bias) {
      AlignedBuffer packed(static_cast<size_t>(gemm.packed_size(k, n)) * sizeof(float));
      gemm.pack(b.data<float>(), whole, 1, k, n, bias.data<float>(), packed.data<float>());
      std::vector<float> c(static_cast<size_t>(m * whole + 1), 7.0f);
      gemm.run(m, n, k, a.data<float>(), k, packed.data<float>(), 0, gemm.panels(n), c.data(), whole, row_bias, -3,
               kInf);
      EXPECT_EQ(c.back(), 7.0f);
      return c;
    };
    for (int64_t m = 1; m <= 3 * gemm.mr; ++m)
      for (int64_t n = 1; n < whole; n = n + 1 == gemm.lanes ? gemm.nr() + 1 : n + 1)  // a narrow panel, or two panels
        for (const float* const row_bias : {static_cast<const float*>(nullptr), a.data<float>()}) {
          const std::vector<float> all = product(m, n < gemm.lanes ? gemm.lanes : whole, row_bias),
                                   some = product(m, n, row_bias);
          for (int64_t i = 0; i < m; ++i) {
            const auto row = some.begin() + i * whole;
            ASSERT_TRUE(std::equal(row, row + n, all.begin() + i * whole))
                << to_string(isa) << ": " << m << " x " << n << ", row " << i;
            ASSERT_EQ(std::count(row + n, row + whole, 7.0f), whole - n);
          }
        }
  }
}

/// Panels give the same bits in whatever ranges a product takes them: tasks share them out.
TEST(GemmF32, RangesOfPanelsGiveTheSameBits) {
  for (const Isa isa : tested_isas()) {
    const GemmF32& gemm = gemm_f32(isa);
    const int64_t n = 8 * gemm.nr() + 3, panels = gemm.panels(n);
    for (const int64_t m : {int64_t{1}, int64_t{2}, gemm.mr + 1})
      for (const int64_t k : {1, 30, 511})
        for (const bool by_row : {false, true}) {
          SCOPED_TRACE(Cat(to_string(isa), ": ", m, " x ", n, " x ", k));
          const Tensor a = random_tensor(DType::kF32, {m, k}, -1, 1, 1),
                       b = random_tensor(DType::kF32, {k, n}, -1, 1, 2),
                       bias = random_tensor(DType::kF32, {n}, -1, 1, 3);
          AlignedBuffer packed(static_cast<size_t>(gemm.packed_size(k, n)) * sizeof(float));
          gemm.pack(b.data<float>(), n, 1, k, n, bias.data<float>(), packed.data<float>());
          const auto product = [&](int64_t together) {
            std::vector<float> c(static_cast<size_t>(m * n));
            for (int64_t p = 0; p < panels; p += together)
              gemm.run(m, n, k, a.data<float>(), k, packed.data<float>(), p, std::min(p + together, panels), c.data(),
                       n, by_row ? a.data<float>() : nullptr, -0.9f, 2);
            return c;
          };
          const std::vector<float> single = product(1);
          for (const int64_t together : {int64_t{2}, int64_t{3}, int64_t{4}, int64_t{7}, panels})
            EXPECT_EQ(product(together), single) << together;
        }
  }
}

/// Blocks of a constant at any address are packed as the whole matrix is.
TEST(GemmF32, PacksConstantsInBlocks) {
  struct Strides {
    const char* name;
    int64_t k, n;
  };
  for (const Isa isa : machine_isas()) {
    std::vector<const GemmF32*> gemms = {&gemm_f32(isa)};
    if (isa.has(IsaFeature::kBf16)) gemms.push_back(&gemm_bf16(isa));
    ThreadPool pool(3);
    for (const GemmF32* gemm : gemms)
      for (const auto& [k, n] : {std::pair<int64_t, int64_t>{1, 1},
                                 {1, 40},
                                 {40, 1},
                                 {0, 5},
                                 {5, 0},
                                 {77, 1000},
                                 {1003, 77},
                                 {1024, 64},
                                 {9000, 33},
                                 {3, 70'000}})
        for (const Strides s : {Strides{"rows", n, 1},
                                {"rows with gaps", n + 3, 1},
                                {"columns", 1, k},
                                {"columns with gaps", 1, k + 5},
                                {"neither", 2 * n, 2}}) {
          SCOPED_TRACE(Cat(to_string(isa), ", word ", gemm->word, ": ", k, " x ", n, ", ", s.name));
          const auto floats = static_cast<size_t>(std::max<int64_t>(k * s.k + n * s.n, 1));
          const Tensor b = random_tensor(DType::kF32, {static_cast<int64_t>(floats)}, -1, 1, 1),
                       bias = random_tensor(DType::kF32, {std::max<int64_t>(n, 1)}, -1, 1, 2);
          std::vector<std::byte> shifted(floats * sizeof(float) + 1);
          std::memcpy(shifted.data() + 1, b.raw(), floats * sizeof(float));
          const auto size = static_cast<size_t>(gemm->packed_size(gemm->words(k), n));
          std::vector<float> whole(size, -7.0f), blocks(size, -7.0f);
          gemm->pack(b.data<float>(), s.k, s.n, k, n, bias.data<float>(), whole.data(), 0.5f, 2.0f);
          const Tensor unaligned = Tensor::unaligned_view(DType::kF32, b.shape(), shifted.data() + 1, nullptr);
          pack_constant(*gemm, unaligned, 0, s.k, s.n, k, n, bias.data<float>(), blocks.data(), 0.5f, 2.0f);
          EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(whole)), std::as_bytes(std::span(blocks))));
          const auto copy = [](const Tensor& from, int64_t first, int64_t count, void* to) {
            from.copy_elements(first, count, to);
          };
          std::ranges::fill(blocks, -7.0f);
          PackingThreads::Copies copies;
          const PackingThreads::Use threads(pool, copies);
          pack_constant(*gemm, Tensor::deferred(DType::kF32, b.shape(), b, copy), 0, s.k, s.n, k, n, bias.data<float>(),
                        blocks.data(), 0.5f, 2.0f);
          EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(whole)), std::as_bytes(std::span(blocks))));
        }
  }
}

/// K in one chunk, in chunks of whole runs, and in parts of a run: all add up to the product.
TEST(GemmF32, ChunksOfK) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const Isa isa : machine_isas()) {
    const GemmF32& gemm = gemm_f32(isa);
    const int64_t m = 2 * gemm.mr + 3, n = gemm.nr() + 1;
    for (const int64_t k : {gemm.depth - 1, gemm.depth + gemm.depth / 2, 2 * gemm.depth + 5, 5 * gemm.depth / 2})
      for (const int64_t runs : {1, 3}) {
        SCOPED_TRACE(Cat(to_string(isa), ": ", runs, " runs of ", k));
        const int64_t all = k * runs;
        const Tensor a = random_tensor(DType::kF32, {m, all}, -1, 1, 1),
                     b = random_tensor(DType::kF32, {all, n}, -1, 1, 2);
        AlignedBuffer packed(static_cast<size_t>(gemm.packed_size(all, n)) * sizeof(float));
        gemm.pack(b.data<float>(), n, 1, all, n, nullptr, packed.data<float>());
        std::vector<ptrdiff_t> at;
        for (int64_t r = 0; r < runs; ++r) at.push_back(r * k);
        std::vector<float> c(static_cast<size_t>(m * n));
        gemm.product({a.data<float>(), c.data(), all, n, m}, {at.data(), runs, k}, all, n, packed.data<float>(), 0,
                     gemm.panels(n), nullptr, -kInf, kInf);
        for (int64_t i = 0; i < m; ++i)
          for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t t = 0; t < all; ++t)
              sum +=
                  static_cast<double>(a.data<float>()[i * all + t]) * static_cast<double>(b.data<float>()[t * n + j]);
            ASSERT_NEAR(c[static_cast<size_t>(i * n + j)], sum, 1e-3) << i << ", " << j;
          }
      }
  }
}

}  // namespace
}  // namespace smelt
