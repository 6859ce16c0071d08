#include "cli/page_constants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

namespace smelt::cli {
namespace {

template <class T>
Tensor tensor_of(DType dtype, const std::vector<T>& values) {
  Tensor t(dtype, {static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.data<T>());
  return t;
}

TEST(PageConstants, FiguresOfFiniteElements) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor t = tensor_of<float>(DType::kF32, {0, 1, 2, 3, -2, inf, nan, 0});
  ConstantTable table;
  ASSERT_EQ(table.add(t), 0U);
  const auto list = table.take();
  const auto& c = list[0];
  EXPECT_EQ(c["elements"], 8);
  EXPECT_EQ(c["min"], -2);
  EXPECT_EQ(c["max"], 3);
  EXPECT_DOUBLE_EQ(c["mean"].get<double>(), 4.0 / 6);
  EXPECT_EQ(c["zeros"], 2);
  EXPECT_EQ(c["nan"], 1);
  EXPECT_EQ(c["values"][5], "Infinity");
  int64_t counted = 0;
  for (const auto& n : c["histogram"]) counted += n.get<int64_t>();
  EXPECT_EQ(counted, 6);
  EXPECT_EQ(c["histogram"].front(), 1);
  EXPECT_EQ(c["histogram"].back(), 1);
  EXPECT_FALSE(c.contains("sampled"));
}

TEST(PageConstants, LargestNumbersHaveAHistogram) {
  const double most = std::numeric_limits<double>::max();
  ConstantTable table;
  table.add(tensor_of<double>(DType::kF64, {-most, 0, most}));
  const auto list = table.take();
  EXPECT_EQ(list[0]["histogram"].front(), 1);
  EXPECT_EQ(list[0]["histogram"][ConstantTable::kBins / 2], 1);
  EXPECT_EQ(list[0]["histogram"].back(), 1);
  EXPECT_FALSE(list[0].contains("deviation"));
}

TEST(PageConstants, LargeOnesAreSampledAndMemoryIsReadOnce) {
  std::vector<int8_t> values(static_cast<size_t>(3 * ConstantTable::kMostRead), 5);
  const Tensor t = tensor_of(DType::kI8, values);
  ConstantTable table;
  EXPECT_EQ(table.add(t), 0U);
  EXPECT_EQ(table.add(t), 0U);
  EXPECT_EQ(table.add(tensor_of<int8_t>(DType::kI8, {})), 1U);
  const auto list = table.take();
  EXPECT_EQ(list[0]["sampled"], ConstantTable::kMostRead);
  EXPECT_EQ(list[0]["histogram"][0], ConstantTable::kMostRead);
  EXPECT_EQ(list[0]["values"].size(), static_cast<size_t>(ConstantTable::kMostValues));
  EXPECT_FALSE(list[1].contains("min"));
}

}  // namespace
}  // namespace smelt::cli
