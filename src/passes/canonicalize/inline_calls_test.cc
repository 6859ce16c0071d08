#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ops/control/control.h"
#include "passes/passes.h"
#include "tests/support/compare.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

const ValueType kRow = ValueType::tensor(DType::kF32, Shape{1, 300});

ValueId call(Builder& b, int graph, ValueId x) {
  CallAttrs a;
  a.graph = graph;
  auto results = b.node(Op::kCall, make_attrs<CallAttrs>(a), {x}, 1);
  EXPECT_TRUE(results.ok());
  b.graph().values.back().type = kRow;
  return results.ok() ? results->front() : 0;
}

/// Graph 0 runs graph 1 `times` times; graph 1 multiplies by a matrix of `width` columns and back, then runs graph 2,
/// which negates.
std::shared_ptr<Module> nested_calls(int times, int64_t width) {
  auto module = test::module_of_one_graph();
  module->graphs.resize(3);
  test::Forms inner{Builder(*module, 2)};
  module->graphs[2].outputs = {inner.unary(Unary::kNeg, inner.b.input("x", kRow))};
  test::Forms body{Builder(*module, 1)};
  const ValueId wide = body.matmul(body.b.input("x", kRow), body.weights({300, width}));
  module->graphs[1].outputs = {call(body.b, 2, body.matmul(wide, body.weights({width, 300})))};
  test::Forms f{Builder(*module, 0)};
  ValueId x = f.b.input("x", kRow);
  for (int i = 0; i < times; ++i) x = call(f.b, 1, x);
  module->graphs[0].outputs = {x};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

std::vector<Op> operators(const Graph& graph) {
  std::vector<Op> ops;
  for (const Node& n : graph.nodes) ops.push_back(n.op);
  return ops;
}

void expect_same_results(const std::shared_ptr<Module>& inlined, const std::shared_ptr<Module>& before) {
  EXPECT_TRUE(verify(*inlined).ok());
  const Tensor in = test::random_tensor(DType::kF32, kRow.shape, -1, 1, 1);
  test::expect_near(test::run_on_reference(inlined, in), test::values(test::run_on_reference(before, in)), 0, 0);
}

TEST(InlineCalls, BodiesStandInPlaceOfCalls) {
  auto module = nested_calls(2, 3);
  inline_calls(*module);
  EXPECT_EQ(operators(module->graphs[0]),
            (std::vector<Op>{Op::kMatMul, Op::kMatMul, Op::kUnary, Op::kMatMul, Op::kMatMul, Op::kUnary}));
  EXPECT_TRUE(module->graphs[1].nodes.empty());
  EXPECT_TRUE(module->graphs[2].nodes.empty());
  expect_same_results(module, nested_calls(2, 3));
}

TEST(InlineCalls, LargeConstantsAreNotCopied) {
  auto module = nested_calls(2, 64);
  inline_calls(*module);
  EXPECT_EQ(operators(module->graphs[0]), (std::vector<Op>{Op::kCall, Op::kCall}));
  EXPECT_EQ(operators(module->graphs[1]), (std::vector<Op>{Op::kMatMul, Op::kMatMul, Op::kUnary}));
  expect_same_results(module, nested_calls(2, 64));
  module = nested_calls(1, 64);
  inline_calls(*module);
  EXPECT_EQ(operators(module->graphs[0]), (std::vector<Op>{Op::kMatMul, Op::kMatMul, Op::kUnary}));
}

TEST(InlineCalls, AModuleGrowsToTwiceItsNodesOrSo) {
  // Each graph calls the next one 4 times: 4^12 nodes if all were inlined.
  auto module = test::module_of_one_graph();
  const int depth = 12;
  module->graphs.resize(depth + 1);
  test::Forms last{Builder(*module, depth)};
  module->graphs[depth].outputs = {last.unary(Unary::kNeg, last.b.input("x", kRow))};
  size_t nodes = 1;
  for (int g = depth; g-- > 0;) {
    Builder b(*module, g);
    ValueId x = b.input("x", kRow);
    for (int i = 0; i < 4; ++i) x = call(b, g + 1, x);
    module->graphs[static_cast<size_t>(g)].outputs = {x};
    nodes += 4;
  }
  inline_calls(*module);
  size_t made = 0;
  for (const Graph& g : module->graphs) made += g.nodes.size();
  EXPECT_LE(made, 2 * nodes + 64);
  EXPECT_TRUE(verify(*module).ok());
}

TEST(InlineCalls, CallsOfOtherTypesStay) {
  auto module = nested_calls(1, 3);
  Graph& body = module->graphs[1];
  body.value(body.inputs[0]).type.shape = Shape{2, 150};
  inline_calls(*module);
  EXPECT_EQ(operators(module->graphs[0]), std::vector<Op>{Op::kCall});
}

}  // namespace
}  // namespace smelt
