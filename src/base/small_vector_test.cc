#include "base/small_vector.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace smelt {
namespace {

using Numbers = SmallVector<int64_t, 3>;

std::vector<int64_t> list(const Numbers& v) { return {v.begin(), v.end()}; }

TEST(SmallVector, GrowsBeyondItsInlineElements) {
  Numbers v;
  for (int64_t i = 1; i <= 5; ++i) {
    v.push_back(i);
    EXPECT_EQ(v.size(), static_cast<size_t>(i));
    EXPECT_EQ(v.back(), i);
  }
  EXPECT_EQ(list(v), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  v.erase(1);
  v.erase(3);
  EXPECT_EQ(list(v), (std::vector<int64_t>{1, 3, 4}));
  const Numbers copy = v;
  v[0] = 9;
  EXPECT_EQ(list(copy), (std::vector<int64_t>{1, 3, 4}));
}

TEST(SmallVector, NewElementsAreZero) {
  Numbers few, many;
  few.resize(2);
  many.resize(7);
  EXPECT_EQ(list(few), std::vector<int64_t>(2, 0));
  EXPECT_EQ(list(many), std::vector<int64_t>(7, 0));
  few.erase(0);
  few.resize(3);
  EXPECT_EQ(list(few), std::vector<int64_t>(3, 0));
  many.resize(0);
  EXPECT_TRUE(many.empty());
}

}  // namespace
}  // namespace smelt
