#include "runtime/environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "ops/core/builder.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/backends.h"
#include "tests/support/module.h"

namespace smelt {
namespace {

class InferredTypesTest : public ::testing::TestWithParam<BackendKind> {
  void SetUp() override { SMELT_SKIP_WITHOUT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, InferredTypesTest, ::testing::ValuesIn(test::every_backend()));

/// Ones in the shape of p, the positions where x is not 0: the operands of Expand keep their types from run to run, and
/// the contents of one of them change.
TEST_P(InferredTypesTest, ShapesThatOnlyContentsChange) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 4}));
  const ValueId p = b.op(Op::kNonZero, make_attrs<NonZeroAttrs>(), {x}).value();
  const ValueId shape = b.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {p}).value();
  b.graph().outputs = {b.op(Op::kExpand, make_attrs<NoAttrs>(), {b.i64({1}), shape}).value()};
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(ModelAccess::make(module), options);
  ASSERT_TRUE(session.ok());
  for (int64_t positive : {3, 3, 0, 4, 2}) {
    Tensor in(DType::kF32, Shape{1, 4});
    std::fill_n(in.data<float>(), positive, 1.0f);
    auto out = session->run(std::vector<Datum>{in});
    ASSERT_TRUE(out.ok()) << out.error().message();
    const Tensor& ones = (*out)[0].tensor;
    ASSERT_EQ(ones.shape(), (Shape{2, positive}));
    for (int64_t i = 0; i < 2 * positive; ++i) EXPECT_EQ(ones.data<int64_t>()[i], 1);
  }
}

}  // namespace
}  // namespace smelt
