#include <gtest/gtest.h>

#include <memory>

#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "tests/support/compare.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

TEST(ReadMatricesTransposed, ProductsReadTheMatrixItself) {
  auto module = test::module_of_one_graph();
  test::Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{3, 5}));
  const ValueId matrix = f.weights({5, 5});
  const ValueId first = f.matmul(x, f.transpose(matrix, {1, 0})), second = f.matmul(first, f.transpose(matrix, {1, 0}));
  Graph& graph = module->graphs[0];
  graph.outputs = {f.matmul(second, f.transpose(second, {1, 0}))};
  const Tensor in = test::random_tensor(DType::kF32, {3, 5}, -1, 1, 1);
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), in));
  read_matrices_transposed(graph, Matrices::kConstant);
  EXPECT_TRUE(verify(*module).ok());
  test::expect_near(test::run_on_reference(module, in), before, 1e-6, 1e-6);
  ASSERT_EQ(graph.nodes.size(), 4U);  // the Transpose of what is computed stays
  for (const size_t k : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(graph.nodes[k].inputs[1], matrix);
    EXPECT_TRUE(static_cast<const MatMulAttrs&>(*graph.nodes[k].attrs).transpose_b);
  }
}

TEST(ReadMatricesTransposed, DynamicOnes) {
  auto module = test::module_of_one_graph();
  test::Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{2, 3, 4, 5}));
  const ValueId turned = f.transpose(x, {0, 1, 3, 2}), other = f.transpose(x, {1, 0, 3, 2});
  Graph& graph = module->graphs[0];
  graph.outputs = {f.matmul(x, turned), f.matmul(turned, x), other};
  const Tensor in = test::random_tensor(DType::kF32, {2, 3, 4, 5}, -1, 1, 1);
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), in));
  read_matrices_transposed(graph, Matrices::kDynamic);
  EXPECT_TRUE(verify(*module).ok());
  test::expect_near(test::run_on_reference(module, in), before, 1e-6, 1e-6);
  ASSERT_EQ(graph.nodes.size(), 4U);  // the left operand and the output are computed still
  EXPECT_EQ(graph.nodes[2].inputs, (std::vector<ValueId>{x, x}));
  EXPECT_TRUE(static_cast<const MatMulAttrs&>(*graph.nodes[2].attrs).transpose_b);
}

}  // namespace
}  // namespace smelt
