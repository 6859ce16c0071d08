// The integer kernels of TFLite stay within a step of the real functions.
#include <cmath>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

struct Case {
  UnaryAttrs attrs;
  DType dtype;
  float in_scale, out_scale;
  int in_zero, out_zero;
  double steps;  ///< allowed distance to the float path
};

Tensor ramp(DType dtype, float scale, int zero) {
  std::vector<double> values;
  const int lo = static_cast<int>(int_min(dtype)), hi = static_cast<int>(int_max(dtype));
  for (int v = lo; v <= hi; v += dtype == DType::kI16 ? 257 : 1) values.push_back(v);
  return quantized(dtype, {static_cast<int64_t>(values.size())}, values, scale, zero, Rounding::kFixedDouble);
}

void expect_within(const Tensor& got, const Tensor& want, double steps) {
  const auto g = values(got), w = values(want);
  ASSERT_EQ(g.size(), w.size());
  for (size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], w[i], steps) << "element " << i;
}

TEST(UnaryFixed, CloseToFloat) {
  const DType i8 = DType::kI8, u8 = DType::kU8, i16 = DType::kI16;
  const Case cases[] = {
      {UnaryAttrs(Unary::kSigmoid), i8, 0.05f, 1.0f / 256, 3, -128, 0},
      {UnaryAttrs(Unary::kSigmoid), u8, 0.05f, 1.0f / 256, 120, 0, 0},
      {UnaryAttrs(Unary::kSigmoid), i16, 0.0003f, 1.0f / 32768, 0, 0, 8},
      {UnaryAttrs(Unary::kTanh), i8, 0.02f, 1.0f / 128, 0, 0, 0},
      {UnaryAttrs(Unary::kTanh), i16, 1.0f / 4096, 1.0f / 32768, 0, 0, 16},
      {UnaryAttrs(Unary::kExp), i8, 0.01f, 0.02f, 0, -128, 0},
      {UnaryAttrs(Unary::kExp), i16, 0.0001f, 0.001f, 0, 0, 4},
      {UnaryAttrs(Unary::kGelu), i8, 0.03f, 0.02f, 0, -100, 0},
      {UnaryAttrs(Unary::kGeluTanh), i16, 0.0002f, 0.0002f, 0, 0, 3},
      {UnaryAttrs(Unary::kElu, 1, 1, 1), i8, 0.03f, 0.03f, 5, 5, 0},
      {UnaryAttrs(Unary::kRelu), i8, 0.1f, 0.05f, 3, -128, 1},
      {UnaryAttrs(Unary::kRelu6), u8, 0.1f, 0.025f, 128, 0, 1},
      {UnaryAttrs(Unary::kReluN1), i8, 0.1f, 0.01f, 3, 1, 1},
      {UnaryAttrs(Unary::kLeakyRelu, 0.3), i16, 0.01f, 0.01f, 0, 0, 1},
      {UnaryAttrs(Unary::kLeakyRelu, -0.3), i8, 0.01f, 0.02f, 4, -7, 1},
      {UnaryAttrs(Unary::kHardSwish), i8, 0.06f, 0.05f, 0, -20, 1},
      {UnaryAttrs(Unary::kHardSwish), u8, 0.03f, 0.05f, 128, 30, 1},
      {UnaryAttrs(Unary::kAbs), i8, 0.1f, 0.2f, 5, -100, 1},
      {UnaryAttrs(Unary::kAbs), i16, 0.1f, 0.1f, 0, 0, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(to_string(c.attrs.fn)) + " " + to_string(c.dtype));
    const Tensor x = ramp(c.dtype, c.in_scale, c.in_zero);
    const auto type =
        ValueType::tensor(c.dtype, x.shape(), per_tensor(c.out_scale, c.out_zero, Rounding::kFixedDouble));
    UnaryAttrs fixed = c.attrs;
    fixed.rounding = Rounding::kFixedDouble;
    expect_within(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(fixed)).input(x).outputs({type}).run(),
                  OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(c.attrs)).input(x).outputs({type}).run(), c.steps);
  }
}

TEST(UnaryFixed, SquareRootTruncatesAndInverseRootSaturates) {
  UnaryAttrs attrs(Unary::kSqrt);
  attrs.rounding = Rounding::kFixedDouble;
  const auto type = ValueType::tensor(DType::kI8, {3}, per_tensor(0.3f, 0, Rounding::kFixedDouble));
  const Tensor x = quantized(DType::kI8, {3}, {0, 1, 4}, 1, 0, Rounding::kFixedDouble);
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(attrs)).input(x).outputs({type}).run(), {0, 3, 6});
  attrs.fn = Unary::kRsqrt;
  const auto fine = ValueType::tensor(DType::kI8, {3}, per_tensor(0.01f, 0, Rounding::kFixedDouble));
  expect_equal(OpRunner(Op::kUnary, make_attrs<UnaryAttrs>(attrs)).input(x).outputs({fine}).run(), {127, 100, 50});
}

TEST(BinaryFixed, CloseToFloat) {
  for (Binary fn : {Binary::kAdd, Binary::kSub, Binary::kMul, Binary::kDiv, Binary::kSquaredDifference, Binary::kPRelu,
                    Binary::kMin, Binary::kMax})
    for (DType dtype : {DType::kI8, DType::kU8, DType::kI16})
      for (ActKind act : {ActKind::kNone, ActKind::kRelu6}) {
        SCOPED_TRACE(std::string(to_string(fn)) + " " + to_string(dtype));
        const int zero = dtype == DType::kU8 ? 128 : 0;
        const Tensor a = quantized(dtype, {4, 1}, {zero - 90.0, zero + 100.0, zero + 7.0, zero + 0.0}, 0.05f, zero);
        const Tensor b = quantized(dtype, {3}, {zero + 100.0, zero - 50.0, zero + 3.0}, 0.05f, zero);
        const auto type = ValueType::tensor(dtype, {4, 3}, per_tensor(0.05f, zero, Rounding::kFixedDouble));
        BinaryAttrs fixed(fn, {act}), real(fn, {act});
        fixed.rounding = Rounding::kFixedDouble;
        const auto run = [&](const BinaryAttrs& attrs) {
          return OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).outputs({type}).run();
        };
        expect_within(run(fixed), run(real), 1);
      }
}

// Enough for the tables of rescaled values.
TEST(BinaryFixed, SquaredDifferencesOfManyValues) {
  const Tensor a = ramp(DType::kI8, 0.05f, 7);
  const Tensor b = quantized(DType::kI8, {3, 1}, {100, -50, 3}, 0.06f, -4);
  const auto type = ValueType::tensor(DType::kI8, {3, 256}, per_tensor(1.0f, -128, Rounding::kFixedDouble));
  BinaryAttrs fixed(Binary::kSquaredDifference), real(Binary::kSquaredDifference);
  fixed.rounding = Rounding::kFixedDouble;
  const auto run = [&](const BinaryAttrs& attrs) {
    return OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).outputs({type}).run();
  };
  expect_within(run(fixed), run(real), 1);
}

TEST(BinaryFixed, NothingDividedFarBelowOneStepIsOneStep) {
  BinaryAttrs attrs(Binary::kDiv);
  attrs.rounding = Rounding::kFixedDouble;
  const Tensor a = quantized(DType::kU8, {2}, {120, 140}, 0.05f, 120, Rounding::kFixedDouble);
  const Tensor b = quantized(DType::kU8, {2}, {152, 152}, 0.021f, 133, Rounding::kFixedDouble);
  const auto type = ValueType::tensor(DType::kU8, {2}, per_tensor(0.5f, 131, Rounding::kFixedDouble));
  const Tensor y = OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).outputs({type}).run();
  expect_equal(y, {132, 136});
}

TEST(BinaryFixed, ComparesOnCommonParams) {
  BinaryAttrs attrs(Binary::kLess);
  attrs.rounding = Rounding::kFixedDouble;
  const Tensor a = quantized(DType::kI8, {3}, {10, -20, 40}, 0.5f, 0),
               b = quantized(DType::kI8, {3}, {21, -42, 80}, 0.25f, 0);
  expect_equal(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).run(), {1, 0, 0});
}

TEST(BinaryFixed, PowerOfTwoScalesShift) {
  BinaryAttrs attrs(Binary::kAdd);
  attrs.rounding = Rounding::kFixedDouble;
  const auto type = ValueType::tensor(DType::kI16, {2}, per_tensor(1.0f / 1024, 0, Rounding::kFixedDouble));
  const Tensor a = quantized(DType::kI16, {2}, {-1, 3}, 1.0f / 2048, 0),
               b = quantized(DType::kI16, {2}, {5, 32767}, 1.0f / 1024, 0);
  attrs.pot_scale = true;
  expect_equal(OpRunner(Op::kBinary, make_attrs<BinaryAttrs>(attrs)).input(a).input(b).outputs({type}).run(),
               {4, 32767});
}

}  // namespace
}  // namespace smelt::test
