#include "base/packing_threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace smelt {
namespace {

TEST(PackingThreads, CopiesStayUntilMoreIsTaken) {
  constexpr size_t kFew = 100, kMany = size_t{1} << 20;
  PackingThreads::Copies copies;
  void* const few = copies.take(kFew);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(few) % 64, 0U);
  EXPECT_EQ(copies.take(kFew / 2), few);
  void* const many = copies.take(kMany);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(many) % 64, 0U);
  std::memset(many, 1, kMany);
  EXPECT_EQ(copies.take(kFew), many);
  copies.release();
  std::memset(copies.take(kMany), 1, kMany);
}

TEST(PackingThreads, EachRangeHasACopyOfItsOwn) {
  constexpr int64_t kThreads = 3, kItems = 10, kBytes = int64_t{1} << 20;
  constexpr size_t kCopied = 1000;
  ThreadPool pool(kThreads);
  PackingThreads::Copies copies;
  for (const bool uses : {true, false}) {
    std::optional<PackingThreads::Use> use;
    if (uses) use.emplace(pool, copies);
    const int64_t ranges = PackingThreads::count(kBytes);
    EXPECT_EQ(ranges, uses ? kThreads : 1);
    std::vector<void*> seen(static_cast<size_t>(kItems));
    PackingThreads::share(kItems, ranges, kCopied, [&](int64_t begin, int64_t end, void* copy) {
      std::memset(copy, static_cast<int>(begin), kCopied);
      for (int64_t i = begin; i < end; ++i) seen[static_cast<size_t>(i)] = copy;
    });
    for (size_t i = 0; i < seen.size(); ++i) EXPECT_NE(seen[i], nullptr) << "item " << i;
    for (size_t i = 1; i < seen.size(); ++i) {
      const int64_t apart = static_cast<char*>(seen[i]) - static_cast<char*>(seen[i - 1]);
      EXPECT_TRUE(apart == 0 || apart >= static_cast<int64_t>(kCopied)) << "item " << i;
    }
    EXPECT_EQ(std::ranges::count(seen, seen[0]) < kItems, uses);
    EXPECT_EQ(seen[0] == copies.take(kCopied), uses) << "what share() copies to";
  }
}

}  // namespace
}  // namespace smelt
