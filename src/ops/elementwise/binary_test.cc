#include <limits>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

Tensor binary(const BinaryAttrs& attrs, const Tensor& a, const Tensor& b) {
  return OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).run();
}

TEST(Binary, Broadcasts) {
  const Tensor a = floats({2, 1, 3}, {1, 2, 3, 4, 5, 6}), b = floats({2, 1}, {10, 20});
  const Tensor y = binary(BinaryAttrs(Binary::kAdd), a, b);
  EXPECT_EQ(y.shape(), (Shape{2, 2, 3}));
  expect_equal(y, {11, 12, 13, 21, 22, 23, 14, 15, 16, 24, 25, 26});
  expect_equal(binary(BinaryAttrs(Binary::kSub), floats({}, {1}), floats({3}, {1, 2, 3})), {0, -1, -2});
  EXPECT_EQ(binary(BinaryAttrs(Binary::kMul), floats({0, 3}, {}), floats({3}, {1, 2, 3})).shape(), (Shape{0, 3}));
  EXPECT_NE(
      OpRunner(Op::kBinary, make_attrs<BinaryAttrs>()).input(a).input(floats({2}, {1, 2})).error().find("broadcast"),
      std::string::npos);
}

TEST(Binary, BroadcastsWithUnknownShapes) {
  const Tensor y = OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul))
                       .input(floats({2, 1}, {2, 3}))
                       .input(floats({1, 2}, {5, 7}))
                       .unknown_shapes()
                       .run();
  expect_equal(y, {10, 14, 15, 21});
}

TEST(Binary, ActivationAndAlpha) {
  const Tensor a = floats({3}, {-4, 1, 9}), b = floats({1}, {1});
  expect_equal(binary(BinaryAttrs(Binary::kAdd, {ActKind::kRelu6}), a, b), {0, 2, 6});
  expect_equal(binary(BinaryAttrs(Binary::kSub, {}, 2), a, b), {-6, -1, 7});
  const Tensor p = tensor(DType::kI32, {2}, {-4, 9}), q = tensor(DType::kI32, {1}, {1});
  expect_equal(binary(BinaryAttrs(Binary::kAdd, {ActKind::kReluN1}), p, q), {-1, 1});
  expect_equal(binary(BinaryAttrs(Binary::kAdd, {}, 3), p, q), {-1, 12});
}

TEST(Binary, IntegerDivisionNeverTraps) {
  const Tensor a = tensor(DType::kI32, {5}, {-7, 7, -2147483648.0, 5, -8}),
               b = tensor(DType::kI32, {5}, {2, -2, -1, 0, 4});
  expect_equal(binary(BinaryAttrs(Binary::kDiv), a, b), {-3, -3, -2147483648.0, 0, -2});
  expect_equal(binary(BinaryAttrs(Binary::kFloorDiv), a, b), {-4, -4, -2147483648.0, 0, -2});
  expect_equal(binary(BinaryAttrs(Binary::kFloorDiv), floats({2}, {70, -70}), floats({2}, {0.2, 0.2})), {349, -350});
  expect_equal(binary(BinaryAttrs(Binary::kMod), a, b), {1, -1, 0, 0, 0});
  expect_equal(binary(BinaryAttrs(Binary::kFmod), a, b), {-1, 1, 0, 0, 0});
}

TEST(Binary, NarrowIntegersWrap) {
  const Tensor a = tensor(DType::kU8, {3}, {250, 3, 128}), b = tensor(DType::kU8, {3}, {10, 5, 1});
  expect_equal(binary(BinaryAttrs(Binary::kAdd), a, b), {4, 8, 129});
  expect_equal(binary(BinaryAttrs(Binary::kSub), a, b), {240, 254, 127});
  expect_equal(binary(BinaryAttrs(Binary::kShiftLeft), a, b), {0, 96, 0});
  expect_equal(binary(BinaryAttrs(Binary::kShiftRight), a, b), {0, 0, 64});
  expect_equal(binary(BinaryAttrs(Binary::kGreater), a, b), {1, 0, 1});
}

TEST(Binary, MixedPow) {
  expect_near(binary(BinaryAttrs(Binary::kPow), floats({2}, {2, 9}), tensor(DType::kI64, {2}, {3, -1})), {8, 1.0 / 9});
  expect_equal(binary(BinaryAttrs(Binary::kPow), tensor(DType::kI32, {3}, {2, -2, 9}), floats({3}, {3, 3, 0.5})),
               {8, -8, 3});
  EXPECT_NE(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>())
                .input(floats({1}, {1}))
                .input(tensor(DType::kI8, {1}, {1}))
                .error(),
            "");
}

TEST(Binary, MinMaxPropagateNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor a = floats({3}, {nan, 1, 2}), b = floats({3}, {1, nan, 3});
  expect_near(binary(BinaryAttrs(Binary::kMax), a, b), {nan, nan, 3});
  expect_near(binary(BinaryAttrs(Binary::kMin), a, b), {nan, nan, 2});
  expect_near(binary(BinaryAttrs(Binary::kFmax), a, b), {1, 1, 3});
}

TEST(Binary, StringsCompare) {
  Tensor a(DType::kString, {2}), b(DType::kString, {1});
  a.data<std::string>()[0] = "left";
  a.data<std::string>()[1] = "right";
  b.data<std::string>()[0] = "right";
  expect_equal(binary(BinaryAttrs(Binary::kEqual), a, b), {0, 1});
  expect_equal(binary(BinaryAttrs(Binary::kNotEqual), a, b), {1, 0});
}

}  // namespace
}  // namespace smelt::test
