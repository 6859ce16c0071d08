// Where, Clamp, Cast, BitCast, Complex and the quantizing operators.
#include <limits>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInf = std::numeric_limits<double>::infinity();

Tensor cast(const Tensor& x, DType to, bool saturate = true) {
  return OpRunner(Op::kCast, make_attrs<CastAttrs>(to, saturate)).input(x).run();
}
Tensor strings(const std::vector<std::string>& values) {
  Tensor t(DType::kString, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) t.data<std::string>()[i] = values[i];
  return t;
}

TEST(Where, Broadcasts) {
  const Tensor c = tensor(DType::kBool, {2, 1}, {1, 0});
  const Tensor y =
      OpRunner(Op::kWhere, make_attrs<NoAttrs>()).input(c).input(floats({2}, {1, 2})).input(floats({}, {9})).run();
  expect_equal(y, {1, 2, 9, 9});
  const Tensor i4 = OpRunner(Op::kWhere, make_attrs<NoAttrs>())
                        .input(tensor(DType::kBool, {3}, {1, 0, 1}))
                        .input(tensor(DType::kI4, {3}, {-8, 1, 7}))
                        .input(tensor(DType::kI4, {3}, {2, 3, 4}))
                        .run();
  expect_equal(i4, {-8, 3, 7});
}

TEST(Clamp, OptionalBounds) {
  const Tensor x = floats({3}, {-5, kNan, 5});
  expect_near(OpRunner(Op::kClamp, make_attrs<NoAttrs>()).input(x).absent().input(floats({}, {1})).run(),
              {-5, kNan, 1});
  expect_near(OpRunner(Op::kClamp, make_attrs<NoAttrs>()).input(x).input(floats({}, {0})).run(), {0, kNan, 5});
  const Tensor i = tensor(DType::kI64, {2}, {-9e15, 7});
  expect_equal(OpRunner(Op::kClamp, make_attrs<NoAttrs>()).input(i).input(tensor(DType::kI64, {}, {1})).run(), {1, 7});
}

TEST(Cast, Numbers) {
  expect_equal(cast(floats({3}, {1.9, -1.9, 300}), DType::kI32), {1, -1, 300});
  expect_equal(cast(tensor(DType::kI32, {2}, {300, -1}), DType::kU8), {44, 255});
  expect_equal(cast(floats({3}, {0, 0.5, kNan}), DType::kBool), {0, 1, 1});
  expect_equal(cast(floats({2}, {1000, -1000}), DType::kF8E4M3FN), {448, -448});
  expect_near(cast(floats({2}, {1000, -kInf}), DType::kF8E5M2, false), {1024, -kInf});
  expect_equal(cast(tensor(DType::kI4, {3}, {-8, 7, 1}), DType::kF32), {-8, 7, 1});
  expect_equal(cast(floats({3}, {-8, 7, 1}), DType::kI4), {-8, 7, 1});
  EXPECT_EQ(cast(tensor(DType::kI64, {1}, {16777217}), DType::kF32).data<float>()[0], 16777216.0f);
}

TEST(Cast, RoundsWhenAsked) {
  CastAttrs attrs(DType::kI4);
  const Tensor x = floats({5}, {-2.5, -0.4, 0.5, 6.6, 7.5});
  expect_equal(OpRunner(Op::kCast, make_attrs<CastAttrs>(attrs)).input(x).run(), {-2, 0, 0, 6, 7});
  attrs.round = true;
  expect_equal(OpRunner(Op::kCast, make_attrs<CastAttrs>(attrs)).input(x).run(), {-3, 0, 1, 7, -8});
}

TEST(Cast, Strings) {
  expect_near(cast(strings({"1.5", "-INF", "NaN", " 7 "}), DType::kF32), {1.5, -kInf, kNan, 7});
  expect_equal(cast(strings({"-12", "3"}), DType::kI32), {-12, 3});
  const Tensor s = cast(floats({3}, {1.5, kInf, 0.1}), DType::kString);
  EXPECT_EQ(s.data<std::string>()[0], "1.5");
  EXPECT_EQ(s.data<std::string>()[1], "INF");
  EXPECT_NE(OpRunner(Op::kCast, make_attrs<CastAttrs>(DType::kF32)).input(strings({"x"})).error().find("'x'"),
            std::string::npos);
}

TEST(BitCast, ShapesFollowTheWidth) {
  const Tensor y =
      OpRunner(Op::kBitCast, make_attrs<CastAttrs>(DType::kU8)).input(tensor(DType::kI32, {1}, {258})).run();
  EXPECT_EQ(y.shape(), (Shape{1, 4}));
  expect_equal(y, {2, 1, 0, 0});
  const Tensor back = OpRunner(Op::kBitCast, make_attrs<CastAttrs>(DType::kI32)).input(y).run();
  EXPECT_EQ(back.shape(), (Shape{1}));
  expect_equal(back, {258});
}

TEST(Quantize, TiesFollowTheRounding) {
  const Tensor x = floats({4}, {0.5, 1.5, -0.5, 1000});
  for (auto [rounding, want] : {std::pair{Rounding::kFloatHalfEven, std::vector<double>{0, 2, 0, 127}},
                                std::pair{Rounding::kFixedDouble, std::vector<double>{1, 2, -1, 127}}}) {
    const auto type = ValueType::tensor(DType::kI8, {4}, per_tensor(1, 0, rounding));
    expect_equal(OpRunner(Op::kQuantize, make_attrs<NoAttrs>()).input(x).outputs({type}).run(), want);
  }
}

TEST(Quantize, FixedPointRequantization) {
  const Tensor x = quantized(DType::kI8, {3}, {-128, 0, 127}, 0.5f, 0, Rounding::kFixedDouble);
  const auto type = ValueType::tensor(DType::kU8, {3}, per_tensor(1, 128, Rounding::kFixedDouble));
  expect_equal(OpRunner(Op::kQuantize, make_attrs<NoAttrs>()).input(x).outputs({type}).run(), {64, 128, 192});
}

TEST(Quantize, DynamicRows) {
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerToken;
  q->axis = 1;
  const Tensor y = OpRunner(Op::kQuantize, make_attrs<NoAttrs>())
                       .input(floats({2, 2}, {0, 255, -1, 1}))
                       .outputs({ValueType::tensor(DType::kI8, {2, 2}, q)})
                       .run();
  ASSERT_EQ(y.quant()->scales.size(), 2u);
  EXPECT_NEAR(y.quant()->scales[0], 1.0f, 1e-6);
  EXPECT_EQ(y.quant()->zero_points[0], -128);
  expect_equal(y, {-128, 127, -128, 127});
  expect_near(OpRunner(Op::kDequantize, make_attrs<NoAttrs>()).input(y).run(), {0, 255, -1, 1}, 0.01);
}

TEST(QuantizeLinear, AxisAndBlocks) {
  QuantizeLinearAttrs attrs;
  attrs.axis = 1;
  attrs.to = DType::kI8;
  const Tensor x = floats({2, 2}, {1, 2, 3, 4});
  expect_equal(
      OpRunner(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs)).input(x).input(floats({2}, {1, 2})).run(),
      {1, 1, 3, 2});
  attrs.block = 2;
  const Tensor q = OpRunner(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs))
                       .input(x)
                       .input(floats({2, 1}, {1, 2}))
                       .input(tensor(DType::kI8, {2, 1}, {0, 10}))
                       .run();
  expect_equal(q, {1, 2, 12, 12});
  attrs.to = DType::kF32;
  expect_equal(OpRunner(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs))
                   .input(q)
                   .input(floats({2, 1}, {1, 2}))
                   .input(tensor(DType::kI8, {2, 1}, {0, 10}))
                   .run(),
               {1, 2, 4, 4});
  attrs.axis = 0;
  expect_equal(OpRunner(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs))
                   .input(tensor(DType::kI8, {3}, {1, 2, 3}))
                   .input(floats({2}, {1, 2}))
                   .run(),
               {1, 2, 6});
}

TEST(DynamicQuantize, OnnxRule) {
  const auto out = OpRunner(Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>())
                       .input(floats({6}, {0, 2, -3, -2.5, 1.34, 0.5}))
                       .outputs(3)
                       .run_all();
  ASSERT_TRUE(out.ok());
  expect_equal((*out)[0].tensor, {153, 255, 0, 26, 221, 179});
  expect_near((*out)[1].tensor, {0.019607844});
  expect_equal((*out)[2].tensor, {153});
}

TEST(DynamicQuantize, XnnpackRuleOfASymmetricRow) {
  DynamicQuantizeAttrs attrs;
  attrs.to = DType::kI8;
  attrs.per_row = attrs.xnnpack_rule = true;
  const auto out = OpRunner(Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(attrs))
                       .input(floats({2, 2}, {-2.26100349f, 2.26100349f, 1, 3}))
                       .outputs(3)
                       .run_all();
  ASSERT_TRUE(out.ok());
  expect_equal((*out)[0].tensor, {-128, 127, -43, 127});
  expect_equal((*out)[2].tensor, {0, -128});
}

TEST(FakeQuant, NudgesZero) {
  FakeQuantAttrs attrs;
  attrs.min = -1;
  attrs.max = 1;
  expect_near(OpRunner(Op::kFakeQuant, make_attrs<FakeQuantAttrs>(attrs)).input(floats({2}, {0, 2})).run(),
              {0, 128 * 2.0 / 255});
}

}  // namespace
}  // namespace smelt::test
