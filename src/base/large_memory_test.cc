#include "base/large_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "base/huge_pages.h"
#include "tests/support/temporary_folder.h"

namespace smelt {
namespace {

constexpr size_t kSizes[] = {1, 5000, 1 << 17, (1 << 21) - 1, 1 << 21, (5 << 20) + 123};

TEST(LargeMemory, IsAligned) {
  for (const size_t bytes : kSizes) {
    void* p = allocate_large(bytes);
    ASSERT_TRUE(p) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u) << bytes;
    std::free(p);
  }
}

TEST(LargeMemory, MappedMemoryIsZeroAndMayBeWritten) {
  for (const size_t bytes : kSizes)
    for (int again = 0; again < 2; ++again) {
      auto* p = static_cast<unsigned char*>(map_zeroed(bytes));
      ASSERT_TRUE(p) << bytes;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % (bytes >= size_t{2} << 20 ? size_t{2} << 20 : 64), 0u) << bytes;
      EXPECT_TRUE(std::all_of(p, p + bytes, [](unsigned char c) { return c == 0; })) << bytes;
      std::fill_n(p, bytes, static_cast<unsigned char>(7));
      unmap_zeroed(p, bytes);
    }
}

TEST(LargeMemory, TooMuchIsNull) { EXPECT_EQ(map_zeroed(SIZE_MAX / 2), nullptr); }

TEST(LargeMemory, BlocksAreZeroAlignedAndApart) {
  if (!is_worth_sharing_pages(size_t{1} << 20)) GTEST_SKIP() << "reads past the end are watched";
  struct Block {
    unsigned char* p;
    size_t bytes;
  };
  std::vector<Block> blocks;
  const auto take = [&](size_t bytes) {
    auto* p = static_cast<unsigned char*>(map_block(bytes));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
    EXPECT_EQ(std::count(p, p + bytes, 0), static_cast<ptrdiff_t>(bytes));
    std::fill_n(p, bytes, static_cast<unsigned char>(blocks.size() + 1));
    blocks.push_back({p, bytes});
  };
  // More than a chunk in all; one is larger than a chunk by itself.
  for (const size_t bytes : {1000, 4096, 5 << 20, 100000, 70 << 20, 64, 3 << 20}) take(bytes);
  // What is freed between others takes nothing from them.
  for (const size_t i : {2U, 4U, 1U}) {
    unmap_block(blocks[i].p, blocks[i].bytes);
    blocks[i].bytes = 0;
  }
  take(2 << 20);
  trim_blocks();
  take(300000);
  trim_blocks();
  for (size_t i = 0; i < blocks.size(); ++i) {
    const auto [p, bytes] = blocks[i];
    EXPECT_EQ(std::count(p, p + bytes, static_cast<unsigned char>(i + 1)), static_cast<ptrdiff_t>(bytes)) << i;
  }
  for (const auto& [p, bytes] : blocks)
    if (bytes > 0) unmap_block(p, bytes);
  EXPECT_EQ(map_block(SIZE_MAX / 2), nullptr);
  EXPECT_EQ(map_block(SIZE_MAX), nullptr);
}

TEST(LargeMemory, BlocksThatTakeTheirTurnAreZero) {
  for (const size_t bytes : {1000, 5000, 1000, 200000, 1000}) {
    auto* p = static_cast<unsigned char*>(map_block(bytes));
    ASSERT_NE(p, nullptr);
    EXPECT_EQ(std::count(p, p + bytes, 0), static_cast<ptrdiff_t>(bytes));
    std::fill_n(p, bytes, static_cast<unsigned char>(9));
    unmap_block(p, bytes);
  }
}

TEST(LargeMemory, BegunBlocksTakeWhatOthersLeave) {
  if (!is_worth_sharing_pages(size_t{1} << 20)) GTEST_SKIP() << "reads past the end are watched";
  for (const size_t expected : {size_t{0}, size_t{100} << 20}) {
    expect_blocks(expected);
    constexpr size_t kFirst = size_t{3} << 20, kSecond = 300000;
    auto* const first = static_cast<unsigned char*>(map_block(kFirst));
    ASSERT_NE(first, nullptr);
    std::fill_n(first, kFirst, static_cast<unsigned char>(1));
    auto* const second = static_cast<unsigned char*>(map_begun_block(kSecond));
    ASSERT_NE(second, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 64, 0U);
    EXPECT_EQ(std::count(second, second + kSecond, 0), static_cast<ptrdiff_t>(kSecond));
    std::fill_n(second, kSecond, static_cast<unsigned char>(2));
    EXPECT_EQ(map_begun_block(kHugePage), nullptr);
    EXPECT_EQ(map_begun_block(SIZE_MAX), nullptr);
    trim_blocks();
    EXPECT_EQ(map_begun_block(64), nullptr);
    EXPECT_EQ(std::count(first, first + kFirst, 1), static_cast<ptrdiff_t>(kFirst));
    EXPECT_EQ(std::count(second, second + kSecond, 2), static_cast<ptrdiff_t>(kSecond));
    unmap_block(first, kFirst);
    EXPECT_EQ(std::count(second, second + kSecond, 2), static_cast<ptrdiff_t>(kSecond));
    unmap_block(second, kSecond);
  }
  expect_blocks(0);
}

TEST(HugePages, AHostTakesFreeMemoryWhereBlocksHaveAnOrder) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "page_reporting_order";
  const auto reports = [&](const char* text) {
    std::ofstream(path) << text;
    return reports_free_memory(path.c_str());
  };
  EXPECT_TRUE(reports("9\n"));
  EXPECT_TRUE(reports("0\n"));
  EXPECT_FALSE(reports("-1\n"));
  EXPECT_FALSE(reports("4294967295\n"));
  EXPECT_FALSE(reports(""));
  EXPECT_FALSE(reports("none"));
  std::remove(path.c_str());
  EXPECT_FALSE(reports_free_memory(path.c_str()));
}

TEST(HugePageChoice, PausesAfterASlowPage) {
  using Clock = HugePageChoice::Clock;
  HugePageChoice choice;
  const Clock::time_point start = Clock::now();
  EXPECT_TRUE(choice.worth_asking(start));
  choice.filled(start, start + HugePageChoice::kSlow);
  EXPECT_TRUE(choice.worth_asking(start + HugePageChoice::kSlow));
  const Clock::time_point slow = start + 2 * HugePageChoice::kSlow;
  choice.filled(start, slow);
  EXPECT_FALSE(choice.worth_asking(slow));
  const auto pause = HugePageChoice::kPauses * (slow - start);
  EXPECT_FALSE(choice.worth_asking(slow + pause - std::chrono::microseconds(1)));
  EXPECT_TRUE(choice.worth_asking(slow + pause));
  choice.filled(start, slow);
  EXPECT_FALSE(choice.worth_asking(slow + 4 * pause - std::chrono::microseconds(1)));
  EXPECT_TRUE(choice.worth_asking(slow + 4 * pause));
  choice.filled(start, start);
  choice.filled(start, slow);
  EXPECT_TRUE(choice.worth_asking(slow + pause));
}

}  // namespace
}  // namespace smelt
