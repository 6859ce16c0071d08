#include "base/recycled_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace smelt {
namespace {

constexpr size_t kBytes = size_t{6} << 20;

bool is_zero(const void* p, size_t bytes) {
  const auto* b = static_cast<const unsigned char*>(p);
  return std::all_of(b, b + bytes, [](unsigned char c) { return c == 0; });
}

TEST(RecycledMemory, WhatIsTakenIsZeroAlignedAndApart) {
  RecycledMemory memory(kBytes);
  for (int round = 0; round < 3; ++round) {
    std::byte* before = nullptr;
    for (const size_t bytes : {size_t{1}, size_t{100}, size_t{1} << 20, size_t{3} << 20}) {
      auto* p = static_cast<std::byte*>(memory.take(bytes));
      ASSERT_TRUE(p) << bytes;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
      EXPECT_GE(p, before);
      EXPECT_TRUE(is_zero(p, bytes)) << bytes << " in round " << round;
      std::fill_n(p, bytes, std::byte{7});
      before = p + bytes;
    }
    memory.reset();
  }
}

/// Who overwrites all of it need not wait for zeros; who comes next still gets them.
TEST(RecycledMemory, AnyContentsAreLeftAsTheyAre) {
  RecycledMemory memory(kBytes);
  constexpr size_t kSize = 1 << 20;
  std::fill_n(static_cast<std::byte*>(memory.take(kSize)), kSize, std::byte{7});
  memory.reset();
  auto* p = static_cast<std::byte*>(memory.take(kSize, RecycledMemory::Contents::kAny));
  EXPECT_EQ(std::count(p, p + kSize, std::byte{7}), static_cast<ptrdiff_t>(kSize));
  memory.reset();
  EXPECT_TRUE(is_zero(static_cast<std::byte*>(memory.take(kSize)), kSize));
}

TEST(RecycledMemory, ResetGivesTheSameMemoryAgain) {
  RecycledMemory memory(kBytes);
  void* const first = memory.take(kBytes);
  ASSERT_TRUE(first);
  EXPECT_EQ(memory.take(1), nullptr);
  memory.reset();
  EXPECT_EQ(memory.take(10), first);
  memory.release();
  EXPECT_TRUE(is_zero(memory.take(kBytes), kBytes));
}

TEST(RecycledMemory, WhatIsLentIsTakenFirst) {
  alignas(64) std::array<std::byte, 256> lent;
  const auto is_lent = [&](const void* p) { return p >= lent.data() && p < lent.data() + lent.size(); };
  RecycledMemory memory(kBytes);
  memory.lend(lent);
  for (int round = 0; round < 2; ++round) {
    lent.fill(std::byte{7});
    void* const first = memory.take(100);
    EXPECT_EQ(first, lent.data());
    EXPECT_TRUE(is_zero(first, 100));
    void* const large = memory.take(200);  // does not fit behind the first
    ASSERT_TRUE(large);
    EXPECT_FALSE(is_lent(large));
    EXPECT_TRUE(is_zero(large, 200));
    EXPECT_EQ(memory.take(128), lent.data() + 128);
    EXPECT_FALSE(is_lent(memory.take(1)));
    memory.reset();
  }
  memory.lend({});
  EXPECT_FALSE(is_lent(memory.take(1)));
}

TEST(RecycledMemory, TooMuchIsNull) {
  RecycledMemory memory(kBytes);
  EXPECT_EQ(memory.take(kBytes + 1), nullptr);
  EXPECT_EQ(memory.take(SIZE_MAX), nullptr);
  EXPECT_EQ(RecycledMemory(0).take(1), nullptr);
}

TEST(RecycledMemory, AThreadUsesTheOneOfTheInnermostScope) {
  EXPECT_EQ(RecycledMemory::current(), nullptr);
  RecycledMemory outer(kBytes), inner(kBytes);
  {
    const RecycledMemory::Use use(outer);
    void* const first = outer.take(10);
    {
      const RecycledMemory::Use use_inner(inner);
      EXPECT_EQ(RecycledMemory::current(), &inner);
    }
    EXPECT_EQ(RecycledMemory::current(), &outer);
    EXPECT_NE(outer.take(10), first);
  }
  EXPECT_EQ(RecycledMemory::current(), nullptr);
}

}  // namespace
}  // namespace smelt
