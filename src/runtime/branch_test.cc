#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {

constexpr int64_t kColumns = 64;

ValueId unary(Builder& b, Unary fn, ValueId x) { return b.op(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}).value(); }
ValueId flat(Builder& b, ValueId x) { return b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {x, b.i64({-1})}).value(); }

/// By `choice`, of n = -x: n itself as another shape and tanh(n), or exp(n) and n. The sum of the first and of
/// tanh(-second), which may lie where n did. `rows`: -1 for shapes that become known as it runs.
Model model_of_branches(int64_t rows) {
  auto module = test::module_of_one_graph();
  module->graphs.resize(3);
  const ValueType matrix = ValueType::tensor(DType::kF32, Shape{rows, kColumns});
  Builder first(*module, 1);
  const ValueId n1 = first.input("n", matrix);
  first.graph().outputs = {flat(first, n1), flat(first, unary(first, Unary::kTanh, n1))};
  Builder second(*module, 2);
  const ValueId n2 = second.input("n", matrix);
  second.graph().outputs = {flat(second, unary(second, Unary::kExp, n2)), flat(second, n2)};
  Builder b(*module, 0);
  const ValueId x = b.input("x", matrix);
  const ValueId choice = b.input("choice", ValueType::tensor(DType::kBool, Shape{}));
  IfAttrs branches;
  branches.then_graph = 1;
  branches.else_graph = 2;
  const auto results = b.node(Op::kIf, make_attrs<IfAttrs>(branches), {choice, unary(b, Unary::kNeg, x)}, 2).value();
  const ValueId other = unary(b, Unary::kTanh, unary(b, Unary::kNeg, results[1]));
  b.graph().outputs = {b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {results[0], other}).value(),
                       results[1]};
  EXPECT_TRUE(verify(*module).ok());
  return ModelAccess::make(std::move(module));
}

std::vector<Datum> arguments(int64_t rows, bool choice) {
  Tensor c(DType::kBool, Shape{});
  *c.data<uint8_t>() = choice;
  return {test::random_tensor(DType::kF32, {rows, kColumns}, -1, 1, static_cast<uint32_t>(rows)), c};
}

// Also after runs that took the other branch, or other shapes.
TEST(Branch, ResultsHoldUntilTheEndOfTheRun) {
  for (const int64_t declared : {int64_t{64}, int64_t{-1}}) {
    const Model model = model_of_branches(declared);
    SessionOptions reference;
    reference.backend = BackendKind::kReference;
    auto obvious = Session::create(model, reference);
    auto session = Session::create(model);
    ASSERT_TRUE(obvious.ok() && session.ok());
    for (const bool choice : {true, true, false, true, false, false})
      for (const int64_t rows : {64, declared < 0 ? 40 : 64}) {
        const auto in = arguments(rows, choice);
        const auto want = obvious->run(in), got = session->run(in);
        ASSERT_TRUE(want.ok() && got.ok());
        for (size_t i = 0; i < 2; ++i) {
          const Tensor &w = (*want)[i].tensor, &g = (*got)[i].tensor;
          ASSERT_EQ(w.shape(), g.shape());
          for (int64_t k = 0; k < w.elements(); ++k)
            ASSERT_NEAR(w.data<float>()[k], g.data<float>()[k], 1e-6) << "output " << i << ", element " << k;
        }
      }
  }
}

// What a caller was given stays, whatever the session runs next.
TEST(Branch, OutputsAreTheCallers) {
  const Model model = model_of_branches(64);
  auto session = Session::create(model);
  ASSERT_TRUE(session.ok());
  const auto first = session->run(arguments(64, true));
  ASSERT_TRUE(first.ok());
  const Tensor kept = (*first)[1].tensor.clone();
  auto other = arguments(64, true);
  other[0] = test::random_tensor(DType::kF32, {64, kColumns}, -1, 1, 9);
  ASSERT_TRUE(session->run(other).ok());
  const Tensor& now = (*first)[1].tensor;
  for (int64_t k = 0; k < kept.elements(); ++k) ASSERT_EQ(kept.data<float>()[k], now.data<float>()[k]);
}

}  // namespace
}  // namespace smelt
