// Operators whose sizes are known when they run, written as ONNX, read back and run.
#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;

TEST(OnnxOpenShapes, UpdatedSlices) {
  const auto start = [](std::vector<double> at) { return test::tensor(DType::kI32, Shape{3}, at); };
  for (const Tensor& at : {start({1, 0, 1}), start({-3, 0, 9})}) {
    const test::OpCase c{
        "update", Op::kDynamicUpdateSlice, make_attrs<NoAttrs>(), {f32({4, 5, 3}), f32({2, 5, 2}, 2), at}};
    test::OpRunner runner(c);
    runner.unknown_shapes();
    const auto module = runner.module();
    ASSERT_TRUE(module.ok()) << module.error().message();
    EXPECT_TRUE(test::expect_same_written(*module, {c.inputs[0], c.inputs[1], c.inputs[2]}, "onnx"));
  }
}

TEST(OnnxOpenShapes, TransposedConvolutionBehindABatch) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  ConvTransposeAttrs a;
  a.filter = FilterLayout::kIOS;
  a.strides = {2, 2};
  a.pads = {0, 0, 0, 0};
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 3, 4, 5}));
  const auto y = b.op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), {x, b.constant("w", f32({3, 2, 3, 2}))});
  ASSERT_TRUE(y.ok()) << y.error().message();
  b.graph().outputs.push_back(*y);
  // The file says the result's shape as the batch of x joined with constants.
  const auto there = test::expect_same_written(module, {f32({2, 3, 4, 5}, 5)}, "tflite");
  ASSERT_TRUE(there);
  const auto copy = std::make_shared<Module>(module_of(*there));
  EXPECT_TRUE(test::expect_same_written(copy, {f32({2, 3, 4, 5}, 5)}, "onnx"));
}

}  // namespace
}  // namespace smelt
