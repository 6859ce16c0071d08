#include <cmath>
#include <limits>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

struct UnaryCase {
  UnaryAttrs attrs;
  std::vector<double> x, y;
};

const UnaryCase kReal[] = {
    {UnaryAttrs(Unary::kRelu), {-1, 0, 2, kNan}, {0, 0, 2, kNan}},
    {UnaryAttrs(Unary::kRelu6), {-1, 3, 7}, {0, 3, 6}},
    {UnaryAttrs(Unary::kClamp, -1, 0.5), {-2, 0, 2, kNan}, {-1, 0, 0.5, kNan}},
    {UnaryAttrs(Unary::kLeakyRelu, 0.5), {-2, 2}, {-1, 2}},
    {UnaryAttrs(Unary::kElu, 1, 1, 1), {-1, 2}, {std::expm1(-1), 2}},
    {UnaryAttrs(Unary::kElu, 0.5), {-1, 2}, {0.5 * std::expm1(-1), 2}},
    {UnaryAttrs(Unary::kSilu), {-1, 2}, {-1 / (1 + std::exp(1)), 2 / (1 + std::exp(-2))}},
    {UnaryAttrs(Unary::kGelu), {1}, {0.8413447}},
    {UnaryAttrs(Unary::kGeluTanh), {1}, {0.8411920}},
    {UnaryAttrs(Unary::kHardSwish), {-4, -1, 4}, {0, -1.0 / 3, 4}},
    {UnaryAttrs(Unary::kHardSigmoid, 0.2, 0.5), {-4, 0, 4}, {0, 0.5, 1}},
    {UnaryAttrs(Unary::kRound), {0.5, 1.5, -0.5, 2.5}, {0, 2, -0.0, 2}},
    {UnaryAttrs(Unary::kRoundHalfAway), {0.5, 1.5, -0.5, 2.5}, {1, 2, -1, 3}},
    {UnaryAttrs(Unary::kSoftplus, 1, 20), {-100, 0, 30}, {0, std::log(2.0), 30}},
    {UnaryAttrs(Unary::kShrink, 1, 0.5), {-2, 0.5, 2}, {-1.5, 0, 1.5}},
    {UnaryAttrs(Unary::kSign), {-3, 0, 5, kNan}, {-1, 0, 1, kNan}},
    {UnaryAttrs(Unary::kDigamma), {1, 0.5, -0.5}, {-0.57721566, -1.96351003, 0.03648998}},
    {UnaryAttrs(Unary::kMish), {1, -1}, {0.86509839, -0.30340146}},
    {UnaryAttrs(Unary::kLogit, -1), {0.25}, {std::log(1.0 / 3)}},
    {UnaryAttrs(Unary::kLogSigmoid), {-100, 0}, {-100, -std::log(2.0)}},
};

TEST(Unary, RealFunctions) {
  for (const auto& c : kReal)
    for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      SCOPED_TRACE(std::string(to_string(c.attrs.fn)) + " " + to_string(dtype));
      const double tolerance = dtype == DType::kF16 ? 2e-3 : (dtype == DType::kBF16 ? 1e-2 : 2e-6);
      const Tensor x = tensor(dtype, {static_cast<int64_t>(c.x.size())}, c.x);
      const Tensor y = OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(c.attrs)).input(x).run();
      EXPECT_EQ(y.dtype(), dtype);
      expect_near(y, c.y, tolerance, tolerance);
    }
}

TEST(Unary, Integers) {
  const Tensor x = tensor(DType::kI8, {4}, {-128, -1, 0, 7});
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs)).input(x).run(), {-128, 1, 0, 7});
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kBitNot)).input(x).run(), {127, 0, -1, -8});
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu6)).input(x).run(), {0, 0, 0, 6});
  const Tensor wide = tensor(DType::kI64, {2}, {-9.2e18, 9.2e18});
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kClamp, -kInf, 5)).input(wide).run(), {-9.2e18, 5});
}

TEST(Unary, BoolResults) {
  const Tensor x = floats({4}, {kNan, kInf, -kInf, 1});
  const Tensor y = OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIsInf, 0, 1)).input(x).unknown_shapes().run();
  EXPECT_EQ(y.dtype(), DType::kBool);
  expect_equal(y, {0, 0, 1, 0});
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIsNan)).input(x).run(), {1, 0, 0, 0});
}

TEST(Unary, ComplexMagnitudeIsReal) {
  Tensor x(DType::kC64, {1});
  x.data<float>()[0] = 3;
  x.data<float>()[1] = -4;
  const Tensor y = OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs)).input(x).run();
  EXPECT_EQ(y.dtype(), DType::kF32);
  expect_equal(y, {5});
}

}  // namespace
}  // namespace smelt::test
