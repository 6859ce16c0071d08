#include "ops/common/lookup.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/numeric.h"

namespace smelt {
namespace {

TEST(ByteTable, RoundsTiesAwayFromZeroAndSaturates) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kBelowHalf = 0.49999997f;
  const float results[] = {0,     0.5f,     -0.5f,     kBelowHalf, -kBelowHalf, 1.5f,  -2.5f,     126.5f,
                           -1e9f, 8388609., 16777216., kInfinity,  -kInfinity,  3e38f, 5000000.5f};
  for (const DType dtype : {DType::kI8, DType::kU8})
    for (const int32_t zero : {0, -3, 100, 1 << 26})
      for (const float result : results) {
        const auto table = byte_table(dtype, 1, 0, 1, zero, [&](float v) { return v == 7 ? result : std::nanf(""); });
        const double exact = static_cast<double>(std::round(result) + static_cast<float>(zero));
        const double clamped =
            std::clamp(exact, static_cast<double>(int_min(dtype)), static_cast<double>(int_max(dtype)));
        EXPECT_EQ(table[7], static_cast<uint8_t>(static_cast<int32_t>(clamped))) << result << ' ' << zero;
        EXPECT_EQ(table[8], 0);  // NaN
      }
}

}  // namespace
}  // namespace smelt
