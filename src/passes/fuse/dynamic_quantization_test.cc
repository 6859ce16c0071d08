// DynamicQuantizeLinear and products of integers, as formats without them spell them, become operators again.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

/// x quantized at run time, times constant integers, as int32.
std::shared_ptr<Module> integer_product(bool conv) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.emplace_back().name = "main";
  module->methods.push_back({.name = "main", .graph = 0});
  Builder b(*module, 0);
  const Shape shape = conv ? Shape{1, 3, 6, 5} : Shape{4, 6};
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, shape));
  const std::vector<ValueId> q{b.value("", {}), b.value("", {}), b.value("", {})};
  EXPECT_TRUE(b.node_to(Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(), {x}, q).ok());
  const ValueId w =
      b.constant("w", test::random_tensor(DType::kI8, conv ? Shape{4, 3, 2, 2} : Shape{6, 5}, -127, 127, 2));
  const auto y = conv ? b.op(Op::kConvInteger, make_attrs<ConvAttrs>(), {q[0], w, q[2]})
                      : b.op(Op::kMatMulInteger, make_attrs<MatMulAttrs>(), {q[0], w, q[2]});
  EXPECT_TRUE(y.ok());
  b.graph().inputs = {x};
  b.graph().outputs = {*y, q[1]};
  return module;
}

/// The operators without views of what the module is as another format and as ONNX, constants folded, in order.
std::vector<Op> operators(const std::shared_ptr<Module>& module, const char* through) {
  const auto there = test::rewritten(ModelAccess::make(module), through);
  EXPECT_TRUE(there.ok()) << (there.ok() ? "" : there.error().message());
  if (!there.ok()) return {};
  const auto back = test::rewritten(*there, "onnx");
  EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().message());
  if (!back.ok()) return {};
  const auto prepared = convert::prepare(*back, *formats::find_writer("onnx"), {.simplify = true});
  EXPECT_TRUE(prepared.ok());
  std::vector<Op> ops;
  for (const Node& n : prepared->graphs[0].nodes)
    if ((op_info(n.op).flags & kView) == 0) ops.push_back(n.op);
  return ops;
}

TEST(DynamicQuantization, ComesBackFromFormulas) {
  for (const char* through : {"tflite", "pte"}) {
    SCOPED_TRACE(through);
    EXPECT_EQ(operators(integer_product(false), through), (std::vector<Op>{Op::kDynamicQuantize, Op::kMatMulInteger}));
    const auto ops = operators(integer_product(true), through);
    EXPECT_EQ(std::ranges::count(ops, Op::kDynamicQuantize), 1);
    EXPECT_EQ(std::ranges::count(ops, Op::kConvInteger), 1);
    EXPECT_LE(std::ranges::count_if(ops, [](Op op) { return op != Op::kTranspose; }), 2);
  }
}

TEST(DynamicQuantization, KeepsResults) {
  for (const bool conv : {false, true})
    for (const char* through : {"tflite", "pte"}) {
      SCOPED_TRACE(testing::Message() << through << conv);
      const auto module = integer_product(conv);
      const Shape shape = module->graphs[0].value(module->graphs[0].inputs[0]).type.shape;
      const auto there = test::rewritten(ModelAccess::make(module), through);
      ASSERT_TRUE(there.ok()) << there.error().message();
      const std::vector<Datum> fed{test::random_tensor(DType::kF32, shape, -2, 5, 3)};
      const auto read = std::make_shared<Module>(module_of(*there));
      test::expect_same_written(read, fed, "onnx", {.simplify = true});
    }
}

}  // namespace
}  // namespace smelt
