#include "ops/softmax/softmax.h"

#include <cmath>

#include "ops/core/op.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

Tensor softmax(const Tensor& x, SoftmaxAttrs::Kind kind, int64_t axis, bool flatten = false, double beta = 1) {
  SoftmaxAttrs attrs;
  attrs.kind = kind;
  attrs.axis = axis;
  attrs.flatten = flatten;
  attrs.beta = beta;
  return OpRunner(Op::kSoftmax, make_attrs<SoftmaxAttrs>(attrs)).input(x).run();
}

TEST(Softmax, AlongAxis) {
  const double l = std::log(3.0);
  const Tensor x = floats({2, 2}, {0, l, 5, 5});
  expect_near(softmax(x, SoftmaxAttrs::Kind::kSoftmax, 1), {0.25, 0.75, 0.5, 0.5});
  expect_near(softmax(x, SoftmaxAttrs::Kind::kLogSoftmax, -1),
              {std::log(0.25), std::log(0.75), -std::log(2.0), -std::log(2.0)});
  expect_near(softmax(floats({2, 1}, {0, l}), SoftmaxAttrs::Kind::kSoftmax, 0), {0.25, 0.75});
  expect_near(softmax(floats({2}, {0, l / 2}), SoftmaxAttrs::Kind::kSoftmax, 0, false, 2), {0.25, 0.75});
  expect_equal(softmax(floats({3}, {1, 7, 7}), SoftmaxAttrs::Kind::kHardmax, 0), {0, 1, 0});
}

TEST(Softmax, FlattenedGroups) {
  const Tensor x = floats({1, 2, 2}, {0, 0, 0, 0});
  expect_near(softmax(x, SoftmaxAttrs::Kind::kSoftmax, 1, true), {0.25, 0.25, 0.25, 0.25});
  expect_near(softmax(x, SoftmaxAttrs::Kind::kSoftmax, 2, true), {0.5, 0.5, 0.5, 0.5});
}

TEST(Softmax, LargeValuesAndDouble) {
  expect_near(softmax(floats({2}, {1e4, 1e4}), SoftmaxAttrs::Kind::kSoftmax, 0), {0.5, 0.5});
  expect_near(softmax(tensor(DType::kF64, {2}, {-1e4, 0}), SoftmaxAttrs::Kind::kSoftmax, 0), {0, 1});
  expect_near(softmax(floats({}, {3}), SoftmaxAttrs::Kind::kSoftmax, -1), {1});
}

TEST(Softmax, IntegerKernelsFollowTheRealOnes) {
  struct Case {
    DType in, out;
    SoftmaxAttrs::Kind kind;
    float scale;
    int zero;
    double steps;
  };
  const Case cases[] = {
      {DType::kI8, DType::kI8, SoftmaxAttrs::Kind::kSoftmax, 1.0f / 256, -128, 1},
      {DType::kU8, DType::kU8, SoftmaxAttrs::Kind::kSoftmax, 1.0f / 256, 0, 1},
      {DType::kI8, DType::kI16, SoftmaxAttrs::Kind::kSoftmax, 1.0f / 65536, -32768, 8},
      {DType::kI16, DType::kI16, SoftmaxAttrs::Kind::kSoftmax, 1.0f / 32768, 0, 8},
      {DType::kI8, DType::kI8, SoftmaxAttrs::Kind::kLogSoftmax, 1.0f / 16, 127, 1},
      {DType::kU8, DType::kU8, SoftmaxAttrs::Kind::kLogSoftmax, 1.0f / 16, 255, 1},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(std::string(to_string(c.in)) + " " + to_string(c.out) + " " + to_string(c.kind));
    const Tensor x = quantized(c.in, {2, 4}, {1, 20, 35, 90, 100, 101, 102, 5}, c.in == DType::kI16 ? 0.02f : 0.05f, 0);
    const auto type = ValueType::tensor(c.out, {2, 4}, per_tensor(c.scale, c.zero));
    SoftmaxAttrs attrs;
    attrs.kind = c.kind;
    const auto want = values(OpRunner(Op::kSoftmax, make_attrs<SoftmaxAttrs>(attrs)).input(x).outputs({type}).run());
    attrs.rounding = Rounding::kFixedDouble;
    const auto got = values(OpRunner(Op::kSoftmax, make_attrs<SoftmaxAttrs>(attrs)).input(x).outputs({type}).run());
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], c.steps) << i;
  }
}

}  // namespace
}  // namespace smelt::test
