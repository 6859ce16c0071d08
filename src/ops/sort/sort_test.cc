#include "ops/sort/sort.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

Tensor whole(double v) { return tensor(DType::kI64, Shape{}, {v}); }
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(TopK, TiesAndNan) {
  auto out = OpRunner(Op::kTopK, make_attrs<TopKAttrs>())
                 .input(floats({5}, {3, kNan, 7, 3, 7}))
                 .input(whole(4))
                 .outputs(2)
                 .run_all();
  ASSERT_TRUE(out.ok());
  expect_near((*out)[0].tensor, {kNan, 7, 7, 3});
  expect_equal((*out)[1].tensor, {1, 2, 4, 0});
  EXPECT_NE(OpRunner(Op::kTopK, make_attrs<TopKAttrs>()).input(floats({2}, {1, 2})).input(whole(3)).outputs(2).error(),
            "");
}

// float32 has an order of its own, float64 that of all types.
TEST(TopK, OrdersFloat32AsFloat64) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> values{3, -0.0, 0.0, -2, kNan, 3, -kInf, kInf, -2, 1e-40, -1e-40, kNan};
  for (const bool largest : {false, true})
    for (const double keep : {1, 5, 6}) {
      TopKAttrs a;
      a.axis = 0;
      a.largest = largest;
      Tensor indices[2];
      for (const DType t : {DType::kF32, DType::kF64}) {
        auto out = OpRunner(Op::kTopK, make_attrs<TopKAttrs>(a))
                       .input(tensor(t, {6, 2}, values))
                       .input(whole(keep))
                       .outputs(2)
                       .run_all();
        ASSERT_TRUE(out.ok());
        indices[t == DType::kF64] = (*out)[1].tensor;
      }
      for (int64_t i = 0; i < indices[0].elements(); ++i)
        EXPECT_EQ(indices[0].data<int64_t>()[i], indices[1].data<int64_t>()[i]) << keep << ' ' << i;
    }
}

TEST(Sort, LargeIntegersKeepTheirOrder) {
  Tensor x(DType::kI64, {3});
  x.data<int64_t>()[0] = (int64_t{1} << 53) + 1;
  x.data<int64_t>()[1] = int64_t{1} << 53;
  x.data<int64_t>()[2] = (int64_t{1} << 53) + 2;
  auto out = OpRunner(Op::kSort, make_attrs<SortAttrs>()).input(x).outputs(2).run_all();
  ASSERT_TRUE(out.ok());
  expect_equal((*out)[1].tensor, {1, 0, 2});
}

TEST(Unique, Orders) {
  UniqueAttrs a;
  const Tensor x = floats({6}, {2, 1, 1, 3, 4, 3});
  auto out = OpRunner(Op::kUnique, make_attrs<UniqueAttrs>(a)).input(x).outputs(4).run_all();
  ASSERT_TRUE(out.ok());
  expect_equal((*out)[0].tensor, {1, 2, 3, 4});
  expect_equal((*out)[1].tensor, {1, 0, 3, 4});
  expect_equal((*out)[2].tensor, {1, 0, 0, 2, 3, 2});
  expect_equal((*out)[3].tensor, {2, 1, 2, 1});
  a.sorted = false;
  expect_equal(OpRunner(Op::kUnique, make_attrs<UniqueAttrs>(a)).input(x).run(), {2, 1, 3, 4});
}

TEST(NonZero, RowsAndColumns) {
  NonZeroAttrs a;
  const Tensor x = floats({2, 2}, {0, 1, 1, 1});
  expect_equal(OpRunner(Op::kNonZero, make_attrs<NonZeroAttrs>(a)).input(x).run(), {0, 1, 1, 1, 0, 1});
  a.rows = true;
  expect_equal(OpRunner(Op::kNonZero, make_attrs<NonZeroAttrs>(a)).input(x).run(), {0, 1, 1, 0, 1, 1});
}

}  // namespace
}  // namespace smelt
