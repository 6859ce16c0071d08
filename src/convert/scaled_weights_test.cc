// Products with factors in formats whose products have none.
#include <gtest/gtest.h>

#include <algorithm>

#include "convert/convert.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "runtime/model_access.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

TEST(ScaledWeights, ProductsHaveNoFactors) {
  MatMulAttrs a;
  a.transpose_b = true;
  a.alpha = -2;
  a.beta = 0.3;
  const Tensor x = test::random_tensor(DType::kF32, {3, 5}, -1, 1, 1);
  const auto module = test::one_node({.label = "product",
                                      .op = Op::kMatMul,
                                      .attrs = make_attrs<MatMulAttrs>(a),
                                      .inputs = {x, test::random_tensor(DType::kF32, {4, 5}, -1, 1, 2),
                                                 test::random_tensor(DType::kF32, {4}, -1, 1, 3)}});
  for (const char* format : {"tflite", "pte"}) {
    SCOPED_TRACE(format);
    const auto back = test::expect_same_written(module, {Datum(x)}, format);
    ASSERT_TRUE(back.has_value());
    const auto& nodes = module_of(*back).graphs[0].nodes;
    EXPECT_EQ(std::ranges::count(nodes, Op::kMatMul, &Node::op), 1);
    EXPECT_EQ(std::ranges::count(nodes, Op::kBinary, &Node::op), 0);
  }
}

}  // namespace
}  // namespace smelt
