// Reductions, written as ONNX, read back and run.
#include "ops/reduce/reduce.h"

#include <gtest/gtest.h>

#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

TEST(OnnxReductions, ElementsByThemselves) {
  for (const Reduction fn : {Reduction::kSum, Reduction::kMax, Reduction::kL1, Reduction::kL2, Reduction::kSumSquare,
                             Reduction::kLogSumExp, Reduction::kLogSum}) {
    SCOPED_TRACE(static_cast<int>(fn));
    ReduceAttrs a;
    a.fn = fn;
    a.noop_with_empty_axes = true;
    const double lowest = fn == Reduction::kLogSum ? 0.25 : -1.5;
    const Tensor x = test::tensor(DType::kF32, Shape{3}, {lowest, 0.5, 2});
    const test::OpCase c{"reduction", Op::kReduce, make_attrs<ReduceAttrs>(a), {x}};
    EXPECT_TRUE(test::expect_same_written(test::one_node(c), {x}, "onnx"));
  }
}

}  // namespace
}  // namespace smelt
