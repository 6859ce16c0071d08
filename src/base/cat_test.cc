#include "base/cat.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "base/error.h"

namespace smelt {
namespace {

TEST(Cat, WritesEveryKindOfPart) {
  const std::string text = "text";
  const char* none = nullptr;
  char buffer[] = "buffer";
  EXPECT_EQ(Cat(), "");
  EXPECT_EQ(Cat("literal ", text, ' ', std::string_view("view and more", 4), ' ', buffer, ' ', none),
            "literal text view buffer (null)");
  EXPECT_EQ(Cat(true, false, 'c', std::string("temporary")), "truefalsectemporary");
  EXPECT_EQ(Cat(INT64_MIN, ' ', UINT64_MAX, ' ', int8_t{-7}, ' ', uint8_t{200}, ' ', int16_t{-3}, ' ', 5u),
            "-9223372036854775808 18446744073709551615 -7 200 -3 5");
}

TEST(Cat, FloatsHaveTheShortestDigitsOfTheirType) {
  EXPECT_EQ(Cat(0.1f, ' ', 0.1, ' ', 1.0f / 3, ' ', 1.0 / 3), "0.1 0.1 0.33333334 0.3333333333333333");
  EXPECT_EQ(Cat(-INFINITY, ' ', 1e30, ' ', -0.0f), "-inf 1e+30 -0");
}

TEST(Cat, MorePartsThanRegisters) {
  EXPECT_EQ(Cat(1, 2.5, "a", 3, 4.5f, std::string_view("b"), 5, 6.5, 'c', 7, 8, 9.5, 10, "d", 11.5, 12.5, 13.5, 14.5,
                15.5, std::string("e"), 16),
            "12.5a34.5b56.5c789.510d11.512.513.514.515.5e16");
}

TEST(Cat, ErrorsTakeTheSameParts) {
  const Error e = InvalidModel("tensor ", 3, " of ", std::string("graph"), ": ", 0.5f);
  EXPECT_EQ(e.code(), ErrorCode::kInvalidModel);
  EXPECT_EQ(e.message(), "tensor 3 of graph: 0.5");
  EXPECT_EQ(Unsupported("x").code(), ErrorCode::kUnsupported);
  EXPECT_EQ(InvalidInput("x").code(), ErrorCode::kInvalidInput);
  EXPECT_EQ(LimitReached("x").code(), ErrorCode::kLimit);
  EXPECT_EQ(Internal("x").code(), ErrorCode::kInternal);
}

}  // namespace
}  // namespace smelt
