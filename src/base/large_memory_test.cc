#include "base/large_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

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

}  // namespace
}  // namespace smelt
