#include "runtime/block_pool.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace smelt {
namespace {

constexpr size_t kBytes = BlockPool::kLeast;

TEST(BlockPool, ServesBlocksAgain) {
  const auto pool = std::make_shared<BlockPool>();
  void* const first = pool->take(kBytes).get();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(pool->waiting(), kBytes);
  auto again = pool->take(kBytes - 100);
  EXPECT_EQ(again.get(), first);
  EXPECT_EQ(pool->waiting(), 0u);
  const auto other = pool->take(kBytes);
  EXPECT_NE(other.get(), first);
  again.reset();
  EXPECT_EQ(pool->waiting(), kBytes);
}

TEST(BlockPool, KeepsNoMoreThanWasUsedTogether) {
  const auto pool = std::make_shared<BlockPool>();
  pool->take(kBytes);
  pool->take(3 * kBytes);  // the first one is too small for it, and ends
  EXPECT_EQ(pool->waiting(), 3 * kBytes);
  const auto small = pool->take(kBytes);  // a third of that one
  EXPECT_EQ(pool->waiting(), 3 * kBytes);
  pool->take(BlockPool::kMost + 1);
  EXPECT_EQ(pool->waiting(), 0u);
}

TEST(BlockPool, BlocksOutliveIt) {
  auto pool = std::make_shared<BlockPool>();
  const auto block = pool->take(kBytes);
  pool.reset();
  static_cast<char*>(block.get())[kBytes - 1] = 1;
}

}  // namespace
}  // namespace smelt
