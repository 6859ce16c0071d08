#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// x [2, 3, 4] transposed by one permutation after another; the first result is an output too, if asked.
std::shared_ptr<Module> transposed(const std::vector<std::vector<int64_t>>& perms, bool keeps_first = false,
                                   QuantPtr quant = nullptr) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  ValueId x = b.input("x", ValueType::tensor(quant ? DType::kI8 : DType::kF32, Shape{2, 3, 4}, quant));
  for (const auto& perm : perms) {
    x = b.op(Op::kTranspose, make_attrs<TransposeAttrs>(TransposeAttrs(perm)), {x}).value();
    if (keeps_first && b.graph().outputs.empty()) b.graph().outputs.push_back(x);
  }
  b.graph().outputs.push_back(x);
  return module;
}

void check(const std::shared_ptr<Module>& module, size_t nodes) {
  const Tensor x = test::random_tensor(DType::kF32, {2, 3, 4}, -1, 1, 1);
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), x));
  merge_transposes(module->graphs[0]);
  EXPECT_TRUE(verify(*module).ok());
  EXPECT_EQ(module->graphs[0].nodes.size(), nodes);
  test::expect_near(test::run_on_reference(module, x), before, 0, 0);
}

TEST(MergeTransposes, OneForTwoAndThree) {
  check(transposed({{1, 2, 0}, {0, 2, 1}}), 1);
  check(transposed({{1, 2, 0}, {2, 0, 1}}), 1);  // back to where it was
  check(transposed({{1, 2, 0}, {0, 2, 1}, {2, 1, 0}}), 1);
}

TEST(MergeTransposes, WhatIsReadElsewhereStays) { check(transposed({{1, 2, 0}, {0, 2, 1}}, true), 2); }

TEST(MergeTransposes, QuantizedValuesStay) {
  auto quant = std::make_shared<Quantization>();
  quant->scales = {0.5f};
  const auto module = transposed({{1, 2, 0}, {2, 0, 1}}, false, quant);
  merge_transposes(module->graphs[0]);
  EXPECT_EQ(module->graphs[0].nodes.size(), 2u);
}

// As TFLite states it.
TEST(MergeTransposes, AConstantOperandBecomesTheAttribute) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2, 3, 4}));
  const ValueId y = b.op(Op::kTranspose, make_attrs<TransposeAttrs>(), {x, b.i64({1, 2, 0})}).value();
  b.graph().outputs = {b.op(Op::kTranspose, make_attrs<TransposeAttrs>(), {y, b.i64({0, 2, 1})}).value()};
  check(module, 1);
  EXPECT_EQ(module->graphs[0].nodes[0].inputs.size(), 1u);
}

}  // namespace
}  // namespace smelt
