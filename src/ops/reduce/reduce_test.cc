#include "ops/reduce/reduce.h"

#include <cmath>
#include <limits>

#include "ops/core/op.h"
#include "support/op_runner.h"

namespace smelt::test {
namespace {

Tensor axes(const std::vector<double>& list) { return tensor(DType::kI64, {static_cast<int64_t>(list.size())}, list); }

Tensor reduce(Reduction fn, const Tensor& x, const std::vector<double>& over, bool keep = false,
              double correction = 0) {
  ReduceAttrs attrs;
  attrs.fn = fn;
  attrs.keep_dims = keep;
  attrs.correction = correction;
  return OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(attrs)).input(x).constant(axes(over)).run();
}

const std::vector<double> kSix = {1, 2, 3, 4, 5, 6};

TEST(Reduce, Axes) {
  const Tensor x = floats({2, 3}, kSix);
  expect_equal(reduce(Reduction::kSum, x, {0}), {5, 7, 9});
  expect_equal(reduce(Reduction::kSum, x, {-1}), {6, 15});
  expect_equal(reduce(Reduction::kSum, x, {}), {21});
  EXPECT_EQ(reduce(Reduction::kSum, x, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(reduce(Reduction::kSum, x, {0, 1}).shape(), Shape{});
  const Tensor y = floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_equal(reduce(Reduction::kMax, y, {0, 2}), {6, 8});
  expect_equal(reduce(Reduction::kMin, y, {1}), {1, 2, 5, 6});
  ReduceAttrs noop;
  noop.noop_with_empty_axes = true;
  expect_equal(OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(noop)).input(x).run(), kSix);
}

TEST(Reduce, DynamicAxes) {
  const Tensor y = OpRunner(Op::kReduce, make_attrs<ReduceAttrs>())
                       .input(floats({2, 3}, kSix))
                       .input(axes({1}))
                       .unknown_shapes()
                       .run();
  expect_equal(y, {6, 15});
  const auto message =
      OpRunner(Op::kReduce, make_attrs<ReduceAttrs>()).input(floats({2}, {1, 2})).input(axes({3})).error();
  EXPECT_NE(message.find("axis 3"), std::string::npos) << message;
}

/// TFLite's quantized product wraps in 32 bits: the first row would be large and positive.
TEST(Reduce, QuantizedProductWraps) {
  ReduceAttrs a;
  a.fn = Reduction::kProd;
  a.rounding = Rounding::kFixedDouble;
  const Tensor x = quantized(DType::kI16, {2, 4}, {-2302, -19207, -27568, -20306, 23625, -12653, 11280, -28834},
                             0.43492424f, 0, Rounding::kFixedDouble);
  const ValueType y = ValueType::tensor(DType::kI16, {2}, per_tensor(0.08714315f, 0, Rounding::kFixedDouble));
  expect_equal(OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(a)).input(x).constant(axes({1})).outputs({y}).run(),
               {-32768, 32767});
}

TEST(Reduce, Functions) {
  const Tensor x = floats({4}, {1, -2, 3, -4});
  expect_near(reduce(Reduction::kMean, x, {0}), {-0.5});
  expect_near(reduce(Reduction::kProd, x, {0}), {24});
  expect_near(reduce(Reduction::kL1, x, {0}), {10});
  expect_near(reduce(Reduction::kL2, x, {0}), {std::sqrt(30.0)});
  expect_near(reduce(Reduction::kSumSquare, x, {0}), {30});
  expect_near(reduce(Reduction::kLogSumExp, floats({2}, {1000, 1000}), {0}), {1000 + std::log(2.0)});
  // Of integers only the largest counts, and how often it comes.
  expect_equal(reduce(Reduction::kLogSumExp, tensor(DType::kI32, {6}, {4, 6, 5, 6, 6, 1}), {0}), {7});
  expect_near(reduce(Reduction::kVar, floats({2, 2}, {1, 3, 5, 9}), {1}, false, 1), {2, 8});
  expect_near(reduce(Reduction::kStd, floats({2, 2}, {1, 3, 5, 9}), {1}), {1, 2});
  const Tensor any = reduce(Reduction::kAny, tensor(DType::kBool, {2, 2}, {0, 1, 0, 0}), {1});
  EXPECT_EQ(any.dtype(), DType::kBool);
  expect_equal(any, {1, 0});
}

TEST(Reduce, IntegersWrapAndTruncate) {
  expect_equal(reduce(Reduction::kSum, tensor(DType::kI32, {2}, {2147483647.0, 1}), {0}), {-2147483648.0});
  expect_equal(reduce(Reduction::kMean, tensor(DType::kI32, {2}, {-3, -4}), {0}), {-3});
  expect_equal(reduce(Reduction::kMax, tensor(DType::kU8, {3}, {7, 200, 100}), {0}), {200});
}

TEST(Reduce, EmptyAndNan) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  expect_near(reduce(Reduction::kMax, floats({2}, {nan, 1}), {0}), {nan});
  expect_near(reduce(Reduction::kMax, floats({0}, {}), {0}), {-inf});
  expect_near(reduce(Reduction::kSum, floats({2, 0}, {}), {1}), {0, 0});
}

TEST(Reduce, WiderResult) {
  ReduceAttrs attrs;
  attrs.accumulate = DType::kI64;
  const Tensor y =
      OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(attrs)).input(tensor(DType::kI32, {2}, {2147483647.0, 1})).run();
  EXPECT_EQ(y.dtype(), DType::kI64);
  expect_equal(y, {2147483648.0});
}

TEST(Reduce, IntegerKernelsFollowTheRealOnes) {
  for (Reduction fn : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kMin, Reduction::kProd})
    for (DType dtype : {DType::kI8, DType::kU8, DType::kI16}) {
      SCOPED_TRACE(std::string(to_string(fn)) + " " + to_string(dtype));
      const int zero = dtype == DType::kU8 ? 100 : 0;
      const auto quant = per_tensor(0.25f, zero, Rounding::kFixedDouble);
      const Tensor x = quantized(dtype, {2, 3},
                                 {zero + 5.0, zero - 3.0, zero + 9.0, zero + 2.0, zero + 6.0, zero + 4.0}, 0.25f, zero);
      ReduceAttrs attrs;
      attrs.fn = fn;
      const auto run = [&] {
        return values(OpRunner(Op::kReduce, make_attrs<ReduceAttrs>(attrs))
                          .input(x)
                          .constant(axes({1}))
                          .outputs({ValueType::tensor(dtype, {2}, quant)})
                          .run());
      };
      const auto want = run();
      attrs.rounding = Rounding::kFixedDouble;
      const auto got = run();
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1) << i;
    }
}

TEST(ArgReduce, AxisAndTies) {
  ArgReduceAttrs attrs;
  attrs.axis = 1;
  const Tensor x = floats({2, 3}, {1, 7, 7, 9, 2, 2});
  expect_equal(OpRunner(Op::kArgReduce, make_attrs<ArgReduceAttrs>(attrs)).input(x).run(), {1, 0});
  attrs.select_last = true;
  expect_equal(OpRunner(Op::kArgReduce, make_attrs<ArgReduceAttrs>(attrs)).input(x).run(), {2, 0});
  attrs.min = true;
  attrs.keep_dims = true;
  const Tensor y = OpRunner(Op::kArgReduce, make_attrs<ArgReduceAttrs>(attrs)).input(x).input(axes({0})).run();
  EXPECT_EQ(y.shape(), (Shape{1, 3}));
  expect_equal(y, {0, 1, 1});
}

TEST(Cumulative, ExclusiveReverse) {
  CumulativeAttrs attrs;
  const Tensor x = floats({3}, {1, 2, 3}), axis = tensor(DType::kI32, {}, {0});
  const auto run = [&] {
    return OpRunner(Op::kCumulative, make_attrs<CumulativeAttrs>(attrs)).input(x).input(axis).run();
  };
  expect_equal(run(), {1, 3, 6});
  attrs.exclusive = true;
  expect_equal(run(), {0, 1, 3});
  attrs.reverse = true;
  expect_equal(run(), {5, 3, 0});
}

TEST(Segment, SortedAndUnsorted) {
  SegmentAttrs attrs;
  const Tensor x = floats({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto ids = tensor(DType::kI32, {3}, {0, 0, 2});
  expect_equal(OpRunner(Op::kSegment, make_attrs<SegmentAttrs>(attrs)).input(x).input(ids).run(), {4, 6, 0, 0, 5, 6});
  attrs.sorted = false;
  attrs.fn = Reduction::kProd;
  expect_equal(OpRunner(Op::kSegment, make_attrs<SegmentAttrs>(attrs))
                   .input(x)
                   .input(tensor(DType::kI32, {3}, {1, -1, 1}))
                   .input(tensor(DType::kI32, {}, {2}))
                   .run(),
               {1, 1, 5, 12});
}

}  // namespace
}  // namespace smelt::test
