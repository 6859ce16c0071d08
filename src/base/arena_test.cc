#include "base/arena.h"

#include <gtest/gtest.h>

#include <random>

namespace smelt {
namespace {

void expect_disjoint(const std::vector<ArenaItem>& items, size_t total) {
  for (size_t i = 0; i < items.size(); ++i) {
    EXPECT_LE(items[i].offset + items[i].bytes, total);
    EXPECT_EQ(items[i].offset % 64, 0u);
    for (size_t j = 0; j < i; ++j) {
      const ArenaItem &a = items[i], &b = items[j];
      const bool together = a.first <= b.last && b.first <= a.last;
      const bool overlap = a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
      EXPECT_FALSE(together && overlap) << i << " and " << j;
    }
  }
}

TEST(Arena, ChainOfEqualBuffersNeedsTwo) {
  std::vector<ArenaItem> items;
  for (int i = 0; i < 10; ++i) items.push_back({.bytes = 1024, .first = i, .last = i + 1});
  EXPECT_EQ(plan_arena(items), 2048u);
  expect_disjoint(items, 2048);
}

TEST(Arena, RandomLifetimesNeverOverlapAndStayNearTheBound) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<ArenaItem> items;
    for (int i = 0; i < 100; ++i) {
      const int first = static_cast<int>(random() % 200);
      items.push_back({.bytes = random() % 5000, .first = first, .last = first + static_cast<int>(random() % 20)});
    }
    const size_t total = plan_arena(items);
    expect_disjoint(items, total);
    EXPECT_LE(total, arena_lower_bound(items) * 2);
  }
}

// Each layer makes a normalized copy, a product of 128 channels and 32 new channels, which join those before.
TEST(Arena, DenseBlocksStayNearTheBound) {
  std::vector<ArenaItem> items;
  const auto add = [&](size_t channels, int first, int last) {
    items.push_back({.bytes = channels * 64, .first = first, .last = last});
  };
  size_t channels = 64;
  int step = 0;
  for (int layer = 0; layer < 6; ++layer, step += 4, channels += 32) {
    add(channels, step, step + 4);
    add(channels, step + 1, step + 2);
    add(128, step + 2, step + 3);
    add(32, step + 3, step + 4);
  }
  add(channels, step, step + 1);
  const size_t total = plan_arena(items), bound = arena_lower_bound(items);
  expect_disjoint(items, total);
  EXPECT_LE(total, bound + bound / 14) << "by size alone a ninth is lost";
}

TEST(Arena, ManyItems) {
  std::vector<ArenaItem> items;
  for (int i = 0; i < 5000; ++i)
    items.push_back({.bytes = 100 + static_cast<size_t>(i % 7) * 64, .first = i, .last = i + 3});
  const size_t total = plan_arena(items);
  EXPECT_LE(total, arena_lower_bound(items) * 2);
}

TEST(ScratchStack, GivesTheSameMemoryAgain) {
  ScratchStack s;
  const auto m = s.mark();
  void* a = s.take(1000);
  void* b = s.take(100000);
  EXPECT_NE(a, b);
  const size_t held = s.held();
  s.release(m);
  EXPECT_EQ(s.take(1000), a);
  EXPECT_EQ(s.take(100000), b);
  EXPECT_EQ(s.held(), held);
}

TEST(ScratchStack, ReservesOneBlock) {
  ScratchStack s;
  const auto m = s.mark();
  s.take(1000);
  s.reserve(1000000);  // while memory is taken
  EXPECT_LT(s.held(), 1000000u);
  s.release(m);
  s.reserve(1000000);
  const size_t held = s.held();
  EXPECT_GE(held, 1000000u);
  EXPECT_LT(held, 1001000u);
  EXPECT_NE(s.take(1000000), nullptr);
  s.release(m);
  s.reserve(2000);
  s.take(500000);
  EXPECT_EQ(s.held(), held);
}

}  // namespace
}  // namespace smelt
