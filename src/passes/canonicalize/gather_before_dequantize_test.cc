#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "passes/passes.h"
#include "tensor/pages.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// Embeddings that are kept as integers: only the rows that are read become real numbers.
TEST(GatherBeforeDequantize, OfConstantIntegers) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId ids = b.input("ids", ValueType::tensor(DType::kI64, Shape{3}));
  const ValueId table = b.constant("table", test::random_tensor(DType::kU8, {50, 4}, 0, 255, 1));
  const ValueId scale = b.constant("scale", Tensor::from<float>(DType::kF32, {}, std::vector{0.1f}));
  const ValueId zero = b.constant("zero", test::random_tensor(DType::kU8, {}, 100, 100, 1));
  const ValueId real = b.value("", {}), y = b.value("", {});
  QuantizeLinearAttrs attrs;
  attrs.to = DType::kF32;
  GatherAttrs gather;
  gather.axis = 0;
  EXPECT_TRUE(
      b.node_to(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(attrs), {table, scale, zero}, {real}).ok());
  EXPECT_TRUE(b.node_to(Op::kGather, make_attrs<GatherAttrs>(gather), {real, ids}, {y}).ok());
  b.graph().outputs = {y};
  const Tensor x = Tensor::from<int64_t>(DType::kI64, {3}, std::vector<int64_t>{49, 0, 7});
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), x));
  gather_before_dequantize(b.graph());
  EXPECT_TRUE(verify(*module).ok());
  ASSERT_EQ(b.graph().nodes.size(), 2u);
  EXPECT_EQ(b.graph().nodes[0].op, Op::kGather);
  EXPECT_EQ(b.graph().nodes[1].op, Op::kDequantizeLinear);
  test::expect_near(test::run_on_reference(module, x), before, 0, 0);
}

/// Tables of float16 values that the graph wants as float32.
class GatherOfFloat16 : public testing::TestWithParam<Op> {};
TEST_P(GatherOfFloat16, WidensTheRowsAlone) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const bool looks_up = GetParam() == Op::kEmbeddingLookup;
  const ValueId ids = b.input("ids", ValueType::tensor(DType::kI32, Shape{3}));
  const ValueId table = b.constant("table", as_float32(test::random_tensor(DType::kF16, {50, 64}, -1, 1, 1)));
  GatherAttrs gather;
  gather.axis = 0;
  const auto attrs = looks_up ? make_attrs<NoAttrs>() : make_attrs<GatherAttrs>(gather);
  const ValueId y = b.op(GetParam(), attrs, looks_up ? std::vector{ids, table} : std::vector{table, ids}).value();
  b.graph().outputs = {y};
  const Tensor x = Tensor::from<int32_t>(DType::kI32, {3}, std::vector<int32_t>{49, 0, 7});
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), x));
  gather_before_dequantize(b.graph());
  EXPECT_TRUE(verify(*module).ok());
  const Node& node = b.graph().nodes[0];
  EXPECT_EQ(b.graph().value(node.inputs[looks_up ? 1 : 0]).type.dtype, DType::kF16);
  EXPECT_EQ(b.graph().nodes.size(), looks_up ? 1U : 2U);
  test::expect_near(test::run_on_reference(module, x), before, 0, 0);
}
INSTANTIATE_TEST_SUITE_P(Readers, GatherOfFloat16, testing::Values(Op::kGather, Op::kEmbeddingLookup));

}  // namespace
}  // namespace smelt
