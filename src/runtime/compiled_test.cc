#include "runtime/compiled.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/module.h"

namespace smelt {
namespace {

/// y = relu(x), and a node that nobody reads.
Model rectifier(bool has_default = false) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2}));
  if (has_default) b.graph().value(x).constant = std::make_shared<const Tensor>(DType::kF32, Shape{2});
  EXPECT_TRUE(b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).ok());
  const ValueId y = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {x}).value();
  b.graph().value(y).name = "y";
  b.graph().outputs = {y, kNoValue, y};
  return ModelAccess::make(std::move(module));
}

void expect_runs(Result<Session> session) {
  ASSERT_TRUE(session.ok()) << session.error().message();
  const std::vector<Datum> in = {Tensor::from<float>(DType::kF32, Shape{2}, std::vector<float>{-1, 3})};
  const auto out = session->run(in);
  ASSERT_TRUE(out.ok()) << out.error().message();
  ASSERT_EQ(out->size(), 3u);
  EXPECT_EQ((*out)[0].tensor.data<float>()[0], 0);
  EXPECT_EQ((*out)[2].tensor.data<float>()[1], 3);
}

bool has_nodes(const Model& model) { return !module_of(model).graphs[0].nodes.empty(); }

TEST(Compiled, HasNoValueThatNothingNames) {
  const auto module = ModelAccess::compiled(rectifier())->module(InputDefaults::kConstant, {});
  ASSERT_TRUE(module.ok());
  const Graph& g = (*module)->graphs[0];
  EXPECT_EQ(g.values.size(), 2u);
  EXPECT_EQ(g.value(g.outputs[0]).name, "y");
  EXPECT_EQ(g.nodes[0].outputs[0], g.outputs[0]);
}

TEST(Compiled, LikeSessionsTakeTheGraphs) {
  Model model = rectifier();
  ModelAccess::keep_for_like_sessions(model);
  EXPECT_FALSE(has_nodes(model));
  EXPECT_EQ(model.inputs()[0].shape, (Shape{2}));
  EXPECT_EQ(model.outputs()[2].name, "y");
  expect_runs(Session::create(model));
  expect_runs(Session::create(model));
  for (const auto& [backend, arithmetic] : {std::pair(BackendKind::kReference, Arithmetic::kReference),
                                            std::pair(BackendKind::kCpu, Arithmetic::kLiteRtXnnpack)}) {
    const auto other = Session::create(model, {.backend = backend, .arithmetic = arithmetic});
    ASSERT_FALSE(other.ok());
    EXPECT_NE(other.error().message().find("other options"), std::string::npos) << other.error().message();
  }
}

TEST(Compiled, ReferenceKernelsRunTheGraphsAsTheyAre) {
  Model model = rectifier();
  ModelAccess::keep_for_like_sessions(model);
  expect_runs(Session::create(model, {.backend = BackendKind::kReference}));
  expect_runs(Session::create(model));
}

TEST(Compiled, GraphsThatOthersNeedStay) {
  Model model = rectifier(), with_default = rectifier(true);
  const Model copy = model;
  ModelAccess::keep_for_like_sessions(model);
  ModelAccess::keep_for_like_sessions(with_default);
  EXPECT_TRUE(has_nodes(copy));
  EXPECT_TRUE(has_nodes(model));
  EXPECT_TRUE(has_nodes(with_default));
}

}  // namespace
}  // namespace smelt
