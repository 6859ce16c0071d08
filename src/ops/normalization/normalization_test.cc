#include "ops/normalization/normalization.h"

#include <cmath>

#include "ops/core/op.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

TEST(BatchNorm, Inference) {
  BatchNormAttrs attrs;
  attrs.epsilon = 0;
  const Tensor y = OpRunner(Op::kBatchNorm, make_attrs<BatchNormAttrs>(attrs))
                       .input(floats({1, 2, 2}, {1, 2, 3, 4}))
                       .input(floats({2}, {2, 1}))
                       .absent()
                       .input(floats({2}, {1, 3}))
                       .input(floats({2}, {4, 1}))
                       .run();
  expect_near(y, {0, 1, 0, 1});
}

TEST(BatchNorm, TrainingUpdatesRunningStatistics) {
  BatchNormAttrs attrs;
  attrs.epsilon = 0;
  attrs.training = true;
  attrs.momentum = 0.5;
  const auto out = OpRunner(Op::kBatchNorm, make_attrs<BatchNormAttrs>(attrs))
                       .input(floats({2, 1}, {1, 3}))
                       .absent()
                       .absent()
                       .input(floats({1}, {0}))
                       .input(floats({1}, {3}))
                       .outputs(3)
                       .run_all();
  ASSERT_TRUE(out.ok());
  expect_near((*out)[0].tensor, {-1, 1});
  expect_near((*out)[1].tensor, {1});
  expect_near((*out)[2].tensor, {2});
}

TEST(LayerNorm, StatisticsAndAffine) {
  LayerNormAttrs attrs;
  attrs.epsilon = 0;
  const auto out = OpRunner(Op::kLayerNorm, make_attrs<LayerNormAttrs>(attrs))
                       .input(floats({2, 2}, {1, 3, 0, 4}))
                       .input(floats({2}, {1, 2}))
                       .input(floats({2}, {0, 1}))
                       .outputs(3)
                       .run_all();
  ASSERT_TRUE(out.ok());
  expect_near((*out)[0].tensor, {-1, 3, -1, 3});
  expect_near((*out)[1].tensor, {2, 2});
  EXPECT_EQ((*out)[1].tensor.shape(), (Shape{2, 1}));
  expect_near((*out)[2].tensor, {1, 0.5});
  attrs.rms = true;
  expect_near(OpRunner(Op::kLayerNorm, make_attrs<LayerNormAttrs>(attrs)).input(floats({1, 2}, {3, 4})).run(),
              {3 / std::sqrt(12.5), 4 / std::sqrt(12.5)});
}

TEST(GroupNorm, LayoutsAgree) {
  GroupNormAttrs attrs;
  attrs.groups = 1;
  attrs.epsilon = 0;
  expect_near(OpRunner(Op::kGroupNorm, make_attrs<GroupNormAttrs>(attrs))
                  .input(floats({1, 2, 2}, {1, 2, 3, 4}))
                  .input(floats({2}, {std::sqrt(1.25), 2 * std::sqrt(1.25)}))
                  .run(),
              {-1.5, -0.5, 1, 3});
  attrs.layout = Layout::kChannelsLast;
  expect_near(OpRunner(Op::kGroupNorm, make_attrs<GroupNormAttrs>(attrs))
                  .input(floats({1, 2, 2}, {1, 3, 2, 4}))
                  .input(floats({2}, {std::sqrt(1.25), 2 * std::sqrt(1.25)}))
                  .run(),
              {-1.5, 1, -0.5, 3});
  attrs.layout = Layout::kChannelsFirst;
  attrs.groups = 0;
  expect_near(OpRunner(Op::kGroupNorm, make_attrs<GroupNormAttrs>(attrs)).input(floats({1, 2, 2}, {1, 3, 0, 8})).run(),
              {-1, 1, -1, 1});
}

TEST(LRN, EvenWindowsReachFurtherForward) {
  LrnAttrs attrs;
  attrs.size = 2;
  attrs.alpha = 1;
  attrs.beta = 1;
  attrs.bias = 0;
  expect_near(OpRunner(Op::kLRN, make_attrs<LrnAttrs>(attrs)).input(floats({1, 3, 1}, {1, 2, 3})).run(),
              {1.0 / 5, 2.0 / 13, 3.0 / 9});
}

TEST(LpNorm, Orders) {
  LpNormAttrs attrs;
  const Tensor x = floats({2, 2}, {3, -4, 0, 0});
  expect_near(OpRunner(Op::kLpNorm, make_attrs<LpNormAttrs>(attrs)).input(x).run(), {0.6, -0.8, 0, 0});
  attrs.p = 1;
  expect_near(OpRunner(Op::kLpNorm, make_attrs<LpNormAttrs>(attrs)).input(x).run(), {3.0 / 7, -4.0 / 7, 0, 0});
}

TEST(LpNorm, FixedPoint) {
  LpNormAttrs attrs;
  attrs.rounding = Rounding::kFixedDouble;
  const auto type = ValueType::tensor(DType::kI8, {1, 2}, per_tensor(1 / 128.0f, 0, Rounding::kFixedDouble));
  const Tensor x = quantized(DType::kI8, {1, 2}, {30, -40}, 0.1f, 0, Rounding::kFixedDouble);
  expect_equal(OpRunner(Op::kLpNorm, make_attrs<LpNormAttrs>(attrs)).input(x).outputs({type}).run(), {77, -102});
}

}  // namespace
}  // namespace smelt::test
