#include "ops/detection/detection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(NonMaxSuppression, SoftScoresDecay) {
  NmsAttrs a;
  a.form = NmsAttrs::Form::kTflite5;
  const Tensor boxes = floats({3, 4}, {0, 0, 1, 1, 0, 0.1, 1, 1.1, 5, 5, 6, 6});
  auto out = OpRunner(Op::kNonMaxSuppression, make_attrs<NmsAttrs>(a))
                 .input(boxes)
                 .input(floats({3}, {0.9, 0.8, 0.3}))
                 .input(tensor(DType::kI32, {}, {4}))
                 .input(floats({}, {1.0}))
                 .input(floats({}, {0.0}))
                 .input(floats({}, {0.5}))
                 .outputs(3)
                 .run_all();
  ASSERT_TRUE(out.ok()) << out.error().message();
  const double iou = 0.9 / 1.1;
  expect_equal((*out)[0].tensor, {0, 1, 2, 0});
  expect_near((*out)[1].tensor, {0.9, 0.8 * std::exp(-iou * iou), 0.3, 0});
  expect_equal((*out)[2].tensor, {3});
}

TEST(NonMaxSuppression, ABoxWithoutAreaIsSelectedAgainAsInTflite) {
  NmsAttrs a;
  a.form = NmsAttrs::Form::kTflite4;
  auto out = OpRunner(Op::kNonMaxSuppression, make_attrs<NmsAttrs>(a))
                 .input(floats({2, 4}, {0, 0, 1, 1, 2, 2, 2, 3}))
                 .input(floats({2}, {0.5, 0.9}))
                 .input(tensor(DType::kI32, {}, {4}))
                 .input(floats({}, {0.5}))
                 .input(floats({}, {0.0}))
                 .outputs(2)
                 .run_all();
  ASSERT_TRUE(out.ok()) << out.error().message();
  expect_equal((*out)[0].tensor, {1, 1, 0, 0});
  expect_equal((*out)[1].tensor, {2});
}

}  // namespace
}  // namespace smelt
