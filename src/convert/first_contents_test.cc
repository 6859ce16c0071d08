#include <gtest/gtest.h>

#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "tests/support/module.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

/// A sum of all inputs so far, [2], that begins with `first`. TFLite assigns that by CALL_ONCE.
Model running_sum(const Tensor& first) {
  auto module = test::module_of_one_graph();
  module->states.push_back({"sum", ValueType::tensor(DType::kF32, first.shape()), first});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, first.shape()));
  const auto before = b.op(Op::kStateRead, make_attrs<StateAttrs>(0), {});
  EXPECT_TRUE(before.ok());
  const auto sum = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {*before, x});
  EXPECT_TRUE(sum.ok() && b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(0), {*sum}, {}).ok());
  b.graph().outputs.push_back(*sum);
  return ModelAccess::make(module);
}

TEST(FirstContents, OfVariablesThatAreAssignedOnce) {
  const Tensor first = test::floats({2}, {3, -4});
  const auto tflite = test::rewritten(running_sum(first), "tflite");
  ASSERT_TRUE(tflite.ok()) << tflite.error().message();
  // The variable, and the flag that says if its first contents are assigned.
  ASSERT_EQ(module_of(*tflite).states.size(), 2u);
  const auto program = test::rewritten(*tflite, "pte");
  ASSERT_TRUE(program.ok()) << program.error().message();
  const Module& module = module_of(*program);
  ASSERT_EQ(module.states.size(), 1u);
  ASSERT_TRUE(module.states[0].initial.is_tensor());
  EXPECT_EQ(get_double(module.states[0].initial.tensor, 1), -4);
  const auto out = test::run_on_reference(*program, {Datum(test::floats({2}, {1, 1}))});
  ASSERT_FALSE(out.empty());
  EXPECT_EQ(get_double(out[0].tensor, 0), 4);
  EXPECT_EQ(get_double(out[0].tensor, 1), -3);
  // As ONNX a variable is an input that has a default.
  const auto onnx = test::rewritten(*tflite, "onnx");
  ASSERT_TRUE(onnx.ok()) << onnx.error().message();
  const Graph& graph = module_of(*onnx).graphs[0];
  EXPECT_EQ(graph.inputs.size(), 2u);
  EXPECT_EQ(std::ranges::count_if(graph.inputs,
                                  [&](ValueId id) {
                                    const Tensor* c = graph.value(id).constant.get();
                                    return c && get_double(*c, 1) == -4;
                                  }),
            1);
}

}  // namespace
}  // namespace smelt
