#include "tensor/bools.h"

#include <gtest/gtest.h>

namespace smelt {
namespace {

TEST(Bools, OtherBytesThanZeroAndOneCountAsOne) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(std::vector<uint8_t>{0, 1, 2, 255});
  const auto copy = normalize_bools(Tensor::view(DType::kBool, Shape{4}, bytes->data(), bytes));
  ASSERT_TRUE(copy.ok());
  EXPECT_EQ(std::vector<uint8_t>(copy->data<uint8_t>(), copy->data<uint8_t>() + 4), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(*bytes, (std::vector<uint8_t>{0, 1, 2, 255}));
}

TEST(Bools, TensorsWithNothingToChangeStayViews) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(std::vector<uint8_t>{0, 1, 1, 7});
  for (const auto& [dtype, elements] : {std::pair{DType::kBool, 3}, std::pair{DType::kU8, 4}}) {
    const auto same = normalize_bools(Tensor::view(dtype, Shape{elements}, bytes->data(), bytes));
    ASSERT_TRUE(same.ok());
    EXPECT_EQ(same->raw(), bytes->data());
  }
}

}  // namespace
}  // namespace smelt
