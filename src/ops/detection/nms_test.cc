#include "ops/detection/detection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "ops/detection/boxes.h"
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

/// Boxes of three classes that lie apart along one axis, some of them as large as all, by comparing each with each.
TEST(NonMaxSuppression, ManyBoxes) {
  constexpr int64_t kBoxes = 400;
  for (const int apart : {0, 1}) {
    Tensor boxes = random_tensor(DType::kF32, {1, kBoxes, 4}, 0, 1, 1);
    const Tensor scores = random_tensor(DType::kF32, {1, 1, kBoxes}, 0, 1, 2);
    auto* b = boxes.data<float>();
    for (int64_t i = 0; i < kBoxes; ++i)
      for (const int k : {apart, apart + 2})
        b[i * 4 + k] = i % 50 == 0 ? b[i * 4 + k] * 30 : b[i * 4 + k] + 10 * (i % 3);
    for (const double threshold : {-0.5, 0.0, 0.4}) {
      std::vector<int64_t> order(kBoxes), expected;
      std::iota(order.begin(), order.end(), 0);
      const auto* s = scores.data<float>();
      std::ranges::stable_sort(order, [&](int64_t x, int64_t y) { return s[x] > s[y]; });
      std::vector<Box> selected;
      for (const int64_t i : order) {
        const Box box = ordered({b[i * 4], b[i * 4 + 1], b[i * 4 + 2], b[i * 4 + 3]});
        if (std::ranges::any_of(selected, [&](const Box& o) { return overlap(box, o) > threshold; })) continue;
        selected.push_back(box);
        expected.insert(expected.end(), {0, 0, i});
      }
      const Tensor y = OpRunner(Op::kNonMaxSuppression, make_attrs<NmsAttrs>())
                           .input(boxes)
                           .input(scores)
                           .input(tensor(DType::kI64, {}, {kBoxes}))
                           .input(floats({}, {threshold}))
                           .run();
      ASSERT_EQ(y.elements(), static_cast<int64_t>(expected.size())) << threshold;
      for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(y.data<int64_t>()[i], expected[i]) << threshold;
    }
  }
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
