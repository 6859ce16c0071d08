#include "runtime/live_ranges.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/backends.h"
#include "tests/support/module.h"

namespace smelt {
namespace {

class LiveRangesTest : public ::testing::TestWithParam<BackendKind> {
  void SetUp() override { SMELT_SKIP_WITHOUT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, LiveRangesTest, ::testing::ValuesIn(test::every_backend()));

// Elements of [tanh(x), tanh(x)], which nothing else reads, and |x|.
TEST_P(LiveRangesTest, ValuesWhoseShapesAloneAreReadAreNotMade) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 3}));
  const ValueId y = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value();
  const ValueId both = b.op(Op::kConcat, make_attrs<AxisAttrs>(1), {y, y}).value();
  const ValueId flat = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {both, b.i64({-1})}).value();
  b.graph().outputs = {b.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {flat}).value(),
                       b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), {x}).value()};
  SessionOptions options;
  options.backend = GetParam();
  options.profile = true;
  auto session = Session::create(ModelAccess::make(std::move(module)), options).value();
  for (int64_t rows = 1; rows < 6; ++rows) {
    Tensor given(DType::kF32, Shape{rows, 3});
    given.data<float>()[1] = -2;
    const auto out = session.run(std::vector<Datum>{given});
    ASSERT_TRUE(out.ok()) << out.error().message();
    EXPECT_EQ((*out)[0].tensor.data<int64_t>()[0], rows * 6);
    EXPECT_EQ((*out)[1].tensor.data<float>()[1], 2);
  }
  if (GetParam() == BackendKind::kReference) return;
  for (const ProfileEntry& e : session.profile()) EXPECT_TRUE(e.op == "Unary" && e.calls > 0) << e.op;
  EXPECT_LE(session.profile().size(), 5U);
}

}  // namespace
}  // namespace smelt
