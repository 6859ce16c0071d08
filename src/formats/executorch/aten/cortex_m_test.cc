// Operators of programs for microcontrollers, against CMSIS-NN's integer arithmetic worked out by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "support/aten_call.h"

namespace smelt::aten {
namespace {

const ValueType kByte = ValueType::tensor(DType::kI8);

Tensor int8(const Shape& shape, const std::vector<int8_t>& v) { return Tensor::from<int8_t>(DType::kI8, shape, v); }
Constant weights(const Shape& shape, const std::vector<int8_t>& v) { return {int8(shape, v)}; }
Constant int32(const std::vector<int32_t>& v) {
  return {Tensor::from<int32_t>(DType::kI32, Shape{static_cast<int64_t>(v.size())}, v)};
}
Arg n(int64_t v) { return Arg::integer(v); }
Arg list(std::vector<int64_t> v) {
  std::vector<Int> items;
  for (const int64_t i : v) items.push_back({i});
  return Arg::int_list(std::move(items));
}

const Tensor kA = int8({5}, {-128, -7, 0, 5, 127}), kB = int8({5}, {3, 100, -50, -5, 127});
/// Two channels of 2 x 2.
const Tensor kImage = int8({1, 2, 2, 2}, {1, 2, 3, 4, -5, 6, -7, 8});
const Constant kMultipliers = int32({1288490189, 1717986918}), kShifts = int32({-2, -3}), kBias = int32({5, -6});

TEST(CortexM, AdditionRescalesBothOperands) {
  const AtenCall call("cortex_m::quantized_add",
                      {kA, n(3), n(1288490189), n(-1), kB, n(-5), n(1717986918), n(0), n(7), n(1610612736), n(-19)},
                      {kByte});
  expect(call.numbers().at(0), {-42, 127, -48, 8, 127});
}

TEST(CortexM, AdditionClampsToItsActivation) {
  const AtenCall call(
      "cortex_m::quantized_add",
      {kA, n(3), n(1288490189), n(-1), kB, n(-5), n(1717986918), n(0), n(7), n(1610612736), n(-19), n(-45), n(100)},
      {kByte});
  expect(call.numbers().at(0), {-42, 100, -45, 8, 100});
}

TEST(CortexM, Multiplication) {
  const AtenCall call("cortex_m::quantized_mul", {kA, n(3), kB, n(-5), n(-2), n(1431655765), n(-7)}, {kByte});
  expect(call.numbers().at(0), {-7, -7, -1, -2, 83});
}

TEST(CortexM, DivisionRoundsHalfAwayFromZeroAndByZeroIsZero) {
  const AtenCall call("cortex_m::quantized_div",
                      {int8({5}, {5, -5, 3, 9, 127}), n(0), int8({5}, {2, 2, 0, 4, 1}), n(0), n(1), Arg::real(1)},
                      {kByte});
  expect(call.numbers().at(0), {4, -2, 1, 3, 127});
}

TEST(CortexM, LinearTakesItsBiasOrTheSumOfItsKernel) {
  const Tensor x = int8({2, 3}, {1, -2, 3, 100, -128, 127});
  const Constant w = weights({2, 3}, {1, 2, -3, -4, 50, 6});
  const auto linear = [&](std::variant<Tensor, Constant, Arg> bias, std::variant<Tensor, Constant, Arg> sum) {
    return AtenCall("cortex_m::quantized_linear",
                    {x, w, std::move(bias), std::move(sum), n(4), n(0), n(-1), list({1518500250}), list({-6}), n(90),
                     n(-100)},
                    {kByte})
        .numbers()
        .at(0);
  };
  expect(linear(int32({10, -200}), Arg::none()), {-1, -2, -7, -68});
  // The bias and four times the sum of each row.
  expect(linear(Arg::none(), int32({10, 8})), {-1, -2, -7, -68});
}

TEST(CortexM, BatchedProductsAddTheirOffsets) {
  const AtenCall call(
      "cortex_m::quantized_batch_matmul",
      {int8({1, 1, 2}, {3, -4}), n(1), int8({1, 2, 2}, {1, 2, -5, 6}), n(-2), n(10), n(1 << 30), n(1), Arg::none()},
      {kByte});
  // (3 + 1)(1 - 2) + (-4 + 1)(2 - 2), (3 + 1)(-5 - 2) + (-4 + 1)(6 - 2), each + 10.
  expect(call.numbers().at(0), {6, -30});
}

TEST(CortexM, Convolutions) {
  const Arg one = list({1, 1}), none = list({0, 0});
  const AtenCall conv("cortex_m::quantized_conv2d",
                      {kImage, weights({2, 1, 2, 2}, {1, -1, 2, 3, -4, 5, 6, -7}), kBias, one, list({0, 1}), one, n(2),
                       n(1), kMultipliers, kShifts, n(-20), n(20), Arg::none()},
                      {kByte});
  expect(conv.numbers().at(0), {1, 8, 1, 1, 10, 1, 4, -6, 3, 7, -8, 3});
  const AtenCall depthwise("cortex_m::quantized_depthwise_conv2d",
                           {kImage, weights({1, 1, 2, 2}, {1, -4, 2, 6}), kBias, one, none, one, n(1), n(2), n(1),
                            kMultipliers, kShifts, n(-128), n(127), Arg::none()},
                           {kByte});
  expect(depthwise.numbers().at(0), {4, 4, 6, 8});
  const AtenCall transposed("cortex_m::quantized_transpose_conv2d",
                            {kImage, weights({1, 1, 2, 2}, {1, -1, 2, 3}), int32({5}), list({2, 2}), none, none, one,
                             n(2), n(1), int32({1288490189}), int32({-2}), n(-128), n(127), Arg::none(), Arg::none()},
                            {kByte});
  expect(transposed.numbers().at(0), {3, 1, 1, 7, 2, 2, 2, 2, 3, 1, 1, 8});
}

TEST(CortexM, Pools) {
  const Arg two = list({2, 2}), one = list({1, 1}), none = list({0, 0});
  const AtenCall mean("cortex_m::quantized_avg_pool2d",
                      {kImage, two, two, none, Arg::boolean(false), n(0), n(1), n(0), Arg::none()}, {kByte});
  expect(mean.numbers().at(0), {3, 1});
  const AtenCall largest("cortex_m::quantized_max_pool2d",
                         {kImage, two, two, none, one, Arg::boolean(false), n(5), n(5), n(-128), n(7)}, {kByte});
  expect(largest.numbers().at(0), {4, 7});
}

TEST(CortexM, TablesMovesAndExtrema) {
  std::vector<int8_t> table(256);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int8_t>(127 - static_cast<int>(i));
  expect(AtenCall("cortex_m::quantized_activation", {kA, weights({256}, table)}, {kByte}).numbers().at(0),
         {127, 6, -1, -6, -128});
  expect(AtenCall("cortex_m::minimum", {kA, kB}, {kByte}).numbers().at(0), {-128, -7, -50, -5, 127});
  expect(AtenCall("cortex_m::maximum", {kA, kB}, {kByte}).numbers().at(0), {3, 100, 0, 5, 127});
  expect(AtenCall("cortex_m::transpose", {int8({2, 3}, {1, 2, 3, 4, 5, 6}), list({1, 0})}, {kByte}).numbers().at(0),
         {1, 4, 2, 5, 3, 6});
  // Rows, columns and channels last in memory: one column before and after, as the declared shape says.
  const ValueType wide = ValueType::tensor(DType::kI8, Shape{1, 2, 1, 3});
  expect(AtenCall("cortex_m::pad", {int8({1, 2, 1, 1}, {1, 2}), list({0, 0, 1, 0}), list({0, 0, 1, 0}), n(-9)}, {wide})
             .numbers()
             .at(0),
         {-9, 1, -9, -9, 2, -9});
}

TEST(CortexM, SoftmaxHasAFixedOutputScale) {
  // Scale 1/16: 2^26 / 16 as multiplier and shift.
  const AtenCall call("cortex_m::softmax",
                      {int8({1, 3}, {0, 16, 32}), n(-1), n(5), n(-128), n(1 << 30), n(23), n(-248)}, {kByte});
  const double sum = 1 + std::exp(1.0) + std::exp(2.0);
  expect(call.numbers().at(0), {256 / sum - 128, 256 * std::exp(1.0) / sum - 128, 256 * std::exp(2.0) / sum - 128}, 1);
}

TEST(CortexM, QuantizationAtTheEdges) {
  const Tensor x = Tensor::from<float>(DType::kF32, Shape{4}, std::vector<float>{-100, 0.25f, 0.75f, 100});
  const AtenCall to("cortex_m::quantize_per_tensor", {x, Arg::real(0.5), n(3), n(-128), n(127), n(1)}, {kByte});
  expect(to.numbers().at(0), {-128, 3, 5, 127});
  const AtenCall from("cortex_m::dequantize_per_tensor", {kA, Arg::real(0.5), n(3), n(-128), n(127), n(1)},
                      {ValueType::tensor(DType::kF32)});
  expect(from.numbers().at(0), {-65.5, -5, -1.5, 1, 62});
}

TEST(CortexM, MultipliersThatAreNotThereAreAnError) {
  const Arg one = list({1, 1}), none = list({0, 0});
  const AtenCall conv("cortex_m::quantized_conv2d",
                      {kImage, weights({2, 1, 2, 2}, {1, -1, 2, 3, -4, 5, 6, -7}), kBias, one, none, one, n(2), n(1),
                       int32({1, 2, 3}), int32({0, 0, 0}), n(-20), n(20), Arg::none()},
                      {kByte});
  EXPECT_FALSE(conv.run(BackendKind::kReference).ok());
}

}  // namespace
}  // namespace smelt::aten
