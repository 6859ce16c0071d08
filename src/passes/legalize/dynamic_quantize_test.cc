#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// Rows of x [3, 8], each with its own quantization parameters, times int8 weights [8, 5].
std::shared_ptr<Module> product_of_rows(DType dtype) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  Tensor w = test::random_tensor(DType::kI8, {8, 5}, -127, 127, 2);
  w.set_quant(test::per_tensor(0.01f, 0));
  auto rows = std::make_shared<Quantization>();
  rows->kind = Quantization::Kind::kPerToken;
  rows->axis = 1;
  const ValueId x = b.input("x", ValueType::tensor(dtype, Shape{3, 8}));
  const ValueId quantized = b.value("quantized", ValueType::tensor(DType::kI8, Shape{3, 8}, rows));
  const ValueId y = b.value("y", ValueType::tensor(DType::kF32, Shape{3, 5}));
  EXPECT_TRUE(b.node_to(Op::kQuantize, make_attrs<NoAttrs>(), {x}, {quantized}).ok());
  EXPECT_TRUE(b.node_to(Op::kMatMul, make_attrs<MatMulAttrs>(), {quantized, b.constant("w", w)}, {y}).ok());
  b.graph().outputs = {y};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

/// The product takes the integers and their scales, of 16-bit reals as of their float32 values.
TEST(RoundRows, OfEveryRealType) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    SCOPED_TRACE(to_string(dtype));
    const auto module = product_of_rows(dtype);
    const auto rounded = dynamic_quantize(module);
    std::vector<Op> ops;
    for (const Node& n : rounded->graphs[0].nodes) ops.push_back(n.op);
    std::vector<Op> expected{Op::kDynamicQuantize, Op::kMatMul};
    if (dtype != DType::kF32) expected.insert(expected.begin(), Op::kCast);
    EXPECT_EQ(ops, expected);
    const Tensor x = test::random_tensor(dtype, {3, 8}, -2, 3, 1);
    test::expect_near(test::run_on_reference(rounded, x), test::values(test::run_on_reference(module, x)), 1e-4, 1e-4);
  }
}

}  // namespace
}  // namespace smelt
