#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/backends.h"

namespace smelt {
namespace {

/// A cache that grows by x: r = relu(x) in the shape of x, c = [past; r], s = r @ c transposed, n = elements of c,
/// b = the shapes of x and c, p = the row of a table, whose numbers are all the row's, for the length of c, and ones of
/// a value larger than c that follows from its shape.
void add_growing(Builder& b) {
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  const ValueId past = b.input("past", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  const ValueId width = b.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {x}).value();
  const ValueId relu = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {x}).value();
  const ValueId r = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {relu, width}).value();
  const ValueId c = b.op(Op::kConcat, make_attrs<AxisAttrs>(0), {past, r}).value();
  MatMulAttrs turned;
  turned.transpose_b = true;
  const ValueId s = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(turned), {r, c}).value();
  const ValueId n = b.op(Op::kSizeOf, make_attrs<ShapeOfAttrs>(), {c}).value();
  const ValueId length = b.op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {c}).value();
  const ValueId both = b.op(Op::kConcat, make_attrs<AxisAttrs>(0), {width, length}).value();
  Tensor table(DType::kF32, Shape{2000, 4});
  for (int64_t i = 0; i < table.elements(); ++i) table.data<float>()[i] = static_cast<float>(i / 4);
  const ValueId row = b.op(Op::kGather, make_attrs<GatherAttrs>(), {length, b.i64({0})}).value();
  const ValueId p = b.op(Op::kGather, make_attrs<GatherAttrs>(), {b.constant("", table), row}).value();
  const ValueId many = b.op(Op::kConcat, make_attrs<AxisAttrs>(0), {length, b.i64({300})}).value();
  Tensor one(DType::kF32, Shape{1, 1, 1});
  one.data<float>()[0] = 1;
  const ValueId all = b.op(Op::kExpand, make_attrs<NoAttrs>(), {b.constant("", one), many}).value();
  const ValueId rows = b.op(Op::kGather, make_attrs<GatherAttrs>(), {all, b.i64({0})}).value();
  const ValueId ones = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kIdentity), {rows}).value();
  b.graph().name = "grows";
  b.graph().outputs = {c, s, n, both, p, ones};
}

/// The same, or the branch of an If that is.
Model growing_model(bool branch = false) {
  auto module = std::make_shared<Module>();
  module->name = "growing";
  module->graphs.resize(branch ? 3 : 1);
  module->methods.push_back({"main", 0});
  if (!branch) {
    Builder b(*module, 0);
    add_growing(b);
    return ModelAccess::make(std::move(module));
  }
  for (const int graph : {1, 2}) {
    Builder b(*module, graph);
    add_growing(b);
  }
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  const ValueId past = b.input("past", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  IfAttrs branches;
  branches.then_graph = 1;
  branches.else_graph = 2;
  const ValueId never = b.constant("", Tensor(DType::kBool, Shape{}));
  b.graph().outputs = b.node(Op::kIf, make_attrs<IfAttrs>(branches), {never, x, past}, 6).value();
  return ModelAccess::make(std::move(module));
}

/// Runs of growing_model(), checked. `others`: plans for other shapes are made in between.
void check_growth(Session& session, int64_t steps, bool others) {
  Datum past = Tensor(DType::kF32, Shape{0, 4});
  std::vector<float> want;  // the cache
  for (int64_t step = 0; step < steps; ++step) {
    // Mostly one row, now and then more; in between the cache starts again.
    if (step == 25) past = Tensor(DType::kF32, Shape{0, 4}), want.clear();
    const int64_t fresh = step % 7 == 3 ? 3 : 1;
    Tensor x(DType::kF32, Shape{fresh, 4});
    for (int64_t i = 0; i < x.elements(); ++i) {
      x.data<float>()[i] = static_cast<float>((step * 5 + i * 3) % 11) - 4;
      want.push_back(std::max(0.0f, x.data<float>()[i]));
    }
    const auto out = session.run_in_place(std::vector<Datum>{x, past});
    ASSERT_TRUE(out.ok()) << out.error().message();
    const auto length = static_cast<int64_t>(want.size()) / 4;
    const Tensor &c = (*out)[0].tensor, &s = (*out)[1].tensor, &n = (*out)[2].tensor, &both = (*out)[3].tensor;
    if (others) {
      // Another plan in between takes nothing from what the run gave.
      ASSERT_TRUE(session.prepare(std::vector<Datum>{x, Tensor(DType::kF32, Shape{length * 2 + 500, 4})}).ok());
    }
    ASSERT_EQ(c.shape(), (Shape{length, 4}));
    ASSERT_EQ(s.shape(), (Shape{fresh, length}));
    for (int64_t i = 0; i < c.elements(); ++i) ASSERT_EQ(c.data<float>()[i], want[static_cast<size_t>(i)]);
    for (int64_t i = 0; i < fresh; ++i)
      for (int64_t j = 0; j < length; ++j) {
        float sum = 0;
        for (int64_t k = 0; k < 4; ++k)
          sum += want[static_cast<size_t>((length - fresh + i) * 4 + k)] * want[static_cast<size_t>(j * 4 + k)];
        ASSERT_FLOAT_EQ(s.data<float>()[i * length + j], sum);
      }
    ASSERT_EQ(n.data<int64_t>()[0], length * 4);
    const int64_t shapes[] = {fresh, 4, length, 4};
    for (int i = 0; i < 4; ++i) ASSERT_EQ(both.data<int64_t>()[i], shapes[i]);
    ASSERT_EQ((*out)[4].tensor.data<float>()[3], static_cast<float>(length));
    ASSERT_EQ((*out)[5].tensor.elements(), 4 * 300);
    ASSERT_EQ((*out)[5].tensor.data<float>()[1199], 1.0f);
    past = (*out)[0];
  }
}

class GrowingCacheTest : public ::testing::TestWithParam<BackendKind> {
  void SetUp() override { SMELT_SKIP_WITHOUT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, GrowingCacheTest, ::testing::ValuesIn(test::every_backend()));

TEST_P(GrowingCacheTest, EveryRunIsRight) {
  SessionOptions options;
  options.backend = GetParam();
  options.max_plans = 3;
  for (const bool branch : {false, true})
    for (const bool others : {true, false}) {
      auto session = Session::create(growing_model(branch), options);
      ASSERT_TRUE(session.ok());
      check_growth(*session, 40, others);
    }
}

TEST(GrowingCache, IsPlannedNowAndThen) {
  for (const bool branch : {false, true}) {
    SessionOptions options;
    int plans = 0;
    options.log = [&](LogLevel, std::string_view line) { plans += line.starts_with("planned '"); };
    auto session = Session::create(growing_model(branch), options);
    ASSERT_TRUE(session.ok());
    check_growth(*session, 25, false);
    plans = 0;
    check_growth(*session, 25, false);  // from the beginning
    EXPECT_LE(plans, branch ? 14 : 12);
  }
}

TEST_P(GrowingCacheTest, PlansKeepNoInputsOfFormerRuns) {
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(growing_model(), options);
  ASSERT_TRUE(session.ok());
  std::weak_ptr<const void> former;
  for (int64_t n = 1; n < 5; ++n) {
    const Tensor past(DType::kF32, Shape{n, 4});
    ASSERT_TRUE(session->run_in_place(std::vector<Datum>{Tensor(DType::kF32, Shape{1, 4}), past}).ok());
    EXPECT_TRUE(former.expired());
    former = past.owner();
  }
}

}  // namespace
}  // namespace smelt
