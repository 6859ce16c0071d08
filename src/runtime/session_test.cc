#include <gtest/gtest.h>

#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tests/support/backends.h"
#include "tests/support/module.h"

namespace smelt {
namespace {

/// y = relu(x @ w + x2) with x [?, 4] and w [4, 4] = 2 * identity.
Model small_model() {
  auto module = std::make_shared<Module>();
  module->name = "small";
  module->graphs.emplace_back();
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  Tensor w(DType::kF32, Shape{4, 4});
  for (int i = 0; i < 4; ++i) w.data<float>()[i * 5] = 2;
  const ValueId y = b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, b.constant("w", std::move(w))}).value();
  const ValueId z = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {y, x}).value();
  b.graph().outputs.push_back(b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {z}).value());
  return ModelAccess::make(std::move(module));
}

std::vector<Datum> rows(int64_t n) {
  Tensor x(DType::kF32, Shape{n, 4});
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = static_cast<float>(i % 7) - 3;
  return {x};
}

class SessionTest : public ::testing::TestWithParam<BackendKind> {
  void SetUp() override { SMELT_SKIP_WITHOUT(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Backends, SessionTest, ::testing::ValuesIn(test::every_backend()));

TEST_P(SessionTest, ACrowdOfShapesStaysRight) {
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(small_model(), options);
  ASSERT_TRUE(session.ok());
  size_t largest = 0;
  for (int round = 0; round < 3; ++round)
    for (int64_t n = 1; n <= 50; ++n) {
      const auto in = rows(n);
      auto out = session->run(in);
      ASSERT_TRUE(out.ok()) << out.error().message();
      const Tensor& y = (*out)[0].tensor;
      ASSERT_EQ(y.shape(), (Shape{n, 4}));
      for (int64_t i = 0; i < y.elements(); ++i)
        ASSERT_FLOAT_EQ(y.data<float>()[i], std::max(0.0f, 3 * in[0].tensor.data<float>()[i]));
      largest = std::max(largest, session->arena_bytes());
    }
  EXPECT_LT(largest, size_t{1} << 16);  // the arena of one plan, not of all shapes
}

/// A model that gives its input, y = relu(x) twice, y in another shape, and -y.
Model repeating_model() {
  auto module = std::make_shared<Module>();
  module->graphs.emplace_back();
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  const ValueId y = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {x}).value();
  const ValueId shape = b.constant("shape", Tensor::from<int64_t>(DType::kI64, Shape{1}, std::vector<int64_t>{-1}));
  const ValueId flat = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {y, shape}).value();
  const ValueId z = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {y}).value();
  b.graph().outputs = {x, y, y, flat, z};
  return ModelAccess::make(std::move(module));
}

TEST_P(SessionTest, OutputsGivenAwayShareNoStorage) {
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(repeating_model(), options);
  ASSERT_TRUE(session.ok());
  const auto in = rows(3);
  std::vector<std::vector<Datum>> runs;
  for (int run = 0; run < 3; ++run) {
    auto out = session->run(in);
    ASSERT_TRUE(out.ok()) << out.error().message();
    runs.push_back(std::move(out).value());
    ASSERT_TRUE(session->run_in_place(rows(3)).ok());  // in the session's memory again
  }
  for (size_t run = 0; run < runs.size(); ++run)
    for (size_t k = 0; k < runs[run].size(); ++k) {
      Tensor& t = runs[run][k].tensor;
      ASSERT_EQ(t.elements(), 12);
      for (int64_t i = 0; i < 12; ++i) {
        const float x = in[0].tensor.data<float>()[i], y = std::max(0.0f, x);
        ASSERT_EQ(t.data<float>()[i], k == 0 ? x : k == 4 ? -y : y) << "run " << run << " output " << k;
      }
      std::fill_n(t.data<float>(), 12, 100.0f);  // changes no other
    }
}

/// Shapes that come round are planned once each, the smaller one last.
TEST(Session, ShapesThatTakeTurnsKeepTheirPlans) {
  SessionOptions options;
  int plans = 0;
  options.log = [&](LogLevel, std::string_view line) { plans += line.starts_with("planned"); };
  auto session = Session::create(small_model(), options);
  ASSERT_TRUE(session.ok());
  for (int round = 0; round < 10; ++round)
    for (const int64_t n : {3, 7}) {
      const auto in = rows(n);
      const auto out = session->run(in);
      ASSERT_TRUE(out.ok());
      ASSERT_EQ((*out)[0].tensor.shape(), (Shape{n, 4}));
    }
  EXPECT_LE(plans, 3);
}

/// r = relu(x), p = positions where r is not 0 (its size depends on data), t = r transposed, n = negated t in x's
/// shape.
Model mixed_model() {
  auto module = std::make_shared<Module>();
  module->name = "mixed";
  module->graphs.emplace_back();
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 4}));
  const ValueId r = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {x}).value();
  const ValueId p = b.op(Op::kNonZero, make_attrs<NonZeroAttrs>(), {r}).value();
  const ValueId t = b.op(Op::kTranspose, make_attrs<TransposeAttrs>(std::vector<int64_t>{1, 0}), {r}).value();
  const ValueId flat = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {t, b.i64({-1, 4})}).value();
  const ValueId n = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {flat}).value();
  b.graph().outputs = {r, p, t, n};
  return ModelAccess::make(std::move(module));
}

TEST_P(SessionTest, HostAndDeviceStepsShareValues) {
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(mixed_model(), options);
  ASSERT_TRUE(session.ok());
  for (int64_t rows_now : {1, 3, 64, 3}) {
    const auto in = rows(rows_now);
    const float* x = in[0].tensor.data<float>();
    auto out = session->run(in);
    ASSERT_TRUE(out.ok()) << out.error().message();
    const Tensor &r = (*out)[0].tensor, &p = (*out)[1].tensor, &t = (*out)[2].tensor, &n = (*out)[3].tensor;
    ASSERT_EQ(t.shape(), (Shape{4, rows_now}));
    ASSERT_EQ(n.shape(), (Shape{rows_now, 4}));
    int64_t positive = 0;
    for (int64_t i = 0; i < rows_now; ++i)
      for (int64_t j = 0; j < 4; ++j) {
        const float want = std::max(0.0f, x[i * 4 + j]);
        positive += want > 0;
        ASSERT_EQ(r.data<float>()[i * 4 + j], want);
        ASSERT_EQ(t.data<float>()[j * rows_now + i], want);
        ASSERT_EQ(n.data<float>()[j * rows_now + i], -want);
      }
    ASSERT_EQ(p.shape(), (Shape{2, positive}));
  }
}

/// p = positions where x is not 0, f = p in one row, m = -f: all of sizes that depend on data.
TEST_P(SessionTest, ViewsOfValuesWhoseShapesDependOnData) {
  auto module = std::make_shared<Module>();
  module->name = "views";
  module->graphs.emplace_back();
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 4}));
  const ValueId p = b.op(Op::kNonZero, make_attrs<NonZeroAttrs>(), {x}).value();
  const ValueId f = b.op(Op::kReshape, make_attrs<ReshapeAttrs>(), {p, b.i64({1, -1})}).value();
  const ValueId m = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {f}).value();
  b.graph().outputs = {p, m};
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(ModelAccess::make(std::move(module)), options);
  ASSERT_TRUE(session.ok());
  for (int64_t positive : {3, 0, 4, 2}) {
    Tensor in(DType::kF32, Shape{1, 4});
    std::fill_n(in.data<float>(), positive, 1.0f);
    auto out = session->run(std::vector<Datum>{in});
    ASSERT_TRUE(out.ok()) << out.error().message();
    const Tensor &at = (*out)[0].tensor, &negated = (*out)[1].tensor;
    ASSERT_EQ(at.shape(), (Shape{2, positive}));
    ASSERT_EQ(negated.shape(), (Shape{1, 2 * positive}));
    for (int64_t i = 0; i < positive; ++i) {
      EXPECT_EQ(at.data<int64_t>()[positive + i], i);
      EXPECT_EQ(negated.data<int64_t>()[positive + i], -i);
    }
  }
}

TEST_P(SessionTest, WrongInputsAreNamed) {
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(small_model(), options);
  ASSERT_TRUE(session.ok());
  const auto message = [&](std::vector<Datum> in) { return session->run(in).error().message(); };
  EXPECT_NE(message({}).find("0 inputs given"), std::string::npos);
  EXPECT_NE(message({Tensor(DType::kI32, Shape{1, 4})}).find("'x' is int32"), std::string::npos);
  EXPECT_NE(message({Tensor(DType::kF32, Shape{4})}).find("shape [4]"), std::string::npos);
  EXPECT_NE(message({Tensor(DType::kF32, Shape{2, 3})}).find("small: "), std::string::npos);
  EXPECT_TRUE(session->run(rows(2)).ok());
}

TEST_P(SessionTest, MemoryLimit) {
  SessionOptions options;
  options.backend = GetParam();
  options.limit_memory = 10'000;
  auto session = Session::create(small_model(), options);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(session->run(rows(10)).ok());
  auto big = session->run(rows(100'000));
  ASSERT_FALSE(big.ok());
  EXPECT_EQ(big.error().code(), ErrorCode::kLimit);
}

/// A border of 2^36 entries is beyond any limit: nothing is prepared for it first.
TEST_P(SessionTest, HugeResultsAreRefusedAtOnce) {
  auto module = std::make_shared<Module>();
  module->graphs.resize(1);
  module->methods.push_back({"main", 0});
  Builder b(*module, 0);
  PadAttrs edge;
  edge.mode = PadAttrs::Mode::kEdge;
  const ValueId x = b.input("x", ValueType::tensor(DType::kI8, Shape{4}));
  auto y = b.op(Op::kPad, make_attrs<PadAttrs>(edge), {x, b.i64({0, int64_t{1} << 36})});
  ASSERT_TRUE(y.ok()) << y.error().message();
  b.graph().outputs = {*y};
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(ModelAccess::make(module), options);
  ASSERT_TRUE(session.ok());
  const auto run = session->run(std::vector<Datum>{Tensor(DType::kI8, Shape{4})});
  ASSERT_FALSE(run.ok());
  EXPECT_EQ(run.error().code(), ErrorCode::kLimit);
}

/// Two methods on one variable: "add" adds its input to the total, "total" gives the total plus its input.
Model counter_model() {
  auto module = std::make_shared<Module>();
  module->states.push_back({.name = "total", .type = ValueType::tensor(DType::kF32, Shape{2})});
  module->graphs.resize(2);
  module->methods = {{"add", 0}, {"total", 1}};
  for (int graph = 0; graph < 2; ++graph) {
    Builder b(*module, graph);
    const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2}));
    const ValueId old = b.op(Op::kStateRead, make_attrs<StateAttrs>(0), {}).value();
    const ValueId sum = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {old, x}).value();
    if (graph == 0) {
      EXPECT_TRUE(b.node_to(Op::kStateWrite, make_attrs<StateAttrs>(0), {sum}, {}).ok());
    }
    b.graph().outputs.push_back(sum);
  }
  return ModelAccess::make(std::move(module));
}

TEST_P(SessionTest, MethodsShareState) {
  SessionOptions options;
  options.backend = GetParam();
  const Model model = counter_model();
  auto session = Session::create(model, options), other = Session::create(model, options);
  ASSERT_TRUE(session.ok() && other.ok());
  const float two[] = {1, 2}, none[] = {0, 0};
  const std::vector<Datum> x{Tensor::from<float>(DType::kF32, Shape{2}, two)};
  const std::vector<Datum> zero{Tensor::from<float>(DType::kF32, Shape{2}, none)};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->run(x).ok());
  const auto total = [&](Session& s) {
    auto out = s.run("total", zero);
    return out.ok() ? (*out)[0].tensor.data<float>()[1] : -1;
  };
  EXPECT_EQ(total(*session), 6);
  EXPECT_EQ(total(*other), 0);
  session->reset_state();
  EXPECT_EQ(total(*session), 0);
  EXPECT_NE(session->run("other", x).error().message().find("the model has: add, total"), std::string::npos);
}

TEST_P(SessionTest, BoundsOfInputsHold) {
  auto module = std::make_shared<Module>(module_of(small_model()));
  Graph& g = module->graphs[0];
  g.value(g.inputs[0]).bound = {8, 4};
  SessionOptions options;
  options.backend = GetParam();
  const Model model = ModelAccess::make(std::move(module));
  EXPECT_EQ(model.inputs()[0].bound, (std::vector<int64_t>{8, 4}));
  auto session = Session::create(model, options);
  ASSERT_TRUE(session.ok());
  EXPECT_TRUE(session->run(rows(8)).ok());
  EXPECT_NE(session->run(rows(9)).error().message().find("at most [8,4]"), std::string::npos);
}

/// While i < 5: (i, a, b, c) = (i + 1, b, a + b, c); gives i, a, b, c.
Model swapping_loop() {
  auto module = std::make_shared<Module>();
  module->graphs.resize(3);
  module->methods.push_back({"main", 0});
  const ValueType counter = ValueType::tensor(DType::kI64, Shape{}), pair = ValueType::tensor(DType::kF32, Shape{2});
  const auto inputs = [&](Builder& b) {
    return std::vector<ValueId>{b.input("i", counter), b.input("a", pair), b.input("b", pair), b.input("c", pair)};
  };
  const auto number = [](Builder& b, int64_t n) {
    return b.constant("n", Tensor::from<int64_t>(DType::kI64, Shape{}, std::vector<int64_t>{n}));
  };
  Builder condition(*module, 1);
  auto in = inputs(condition);
  condition.graph().outputs = {
      condition.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kLess), {in[0], number(condition, 5)}).value()};
  Builder body(*module, 2);
  in = inputs(body);
  const ValueId next = body.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {in[0], number(body, 1)}).value();
  const ValueId sum = body.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {in[1], in[2]}).value();
  body.graph().outputs = {next, in[2], sum, in[3]};
  Builder b(*module, 0);
  in = inputs(b);
  auto loop = std::make_shared<WhileAttrs>();
  loop->cond_graph = 1;
  loop->body_graph = 2;
  const auto out = b.node(Op::kWhile, loop, in, 4);
  b.graph().outputs = out.value();
  return ModelAccess::make(std::move(module));
}

TEST_P(SessionTest, LoopsMayPassTheirValuesOn) {
  SessionOptions options;
  options.backend = GetParam();
  auto session = Session::create(swapping_loop(), options);
  ASSERT_TRUE(session.ok()) << session.error().message();
  const auto pair = [](float x, float y) {
    return Datum(Tensor::from<float>(DType::kF32, Shape{2}, std::vector<float>{x, y}));
  };
  for (int round = 0; round < 3; ++round) {
    const std::vector<Datum> given = {Tensor(DType::kI64, Shape{}), pair(1, 10), pair(1, 20), pair(7, 8)};
    const auto out = session->run(given);
    ASSERT_TRUE(out.ok()) << out.error().message();
    const auto at = [&](size_t i, int64_t k) { return (*out)[i].tensor.data<float>()[k]; };
    EXPECT_EQ((*out)[0].tensor.data<int64_t>()[0], 5);
    EXPECT_EQ(at(1, 0), 8);
    EXPECT_EQ(at(1, 1), 130);
    EXPECT_EQ(at(2, 0), 13);
    EXPECT_EQ(at(2, 1), 210);
    EXPECT_EQ(at(3, 0), 7);
    EXPECT_EQ(at(3, 1), 8);
  }
}

/// So that loops without end are stopped as soon there as on the host.
TEST_P(SessionTest, WhatABodyHandsToADeviceCountsAsManySteps) {
  auto session = Session::create(swapping_loop(), {.backend = GetParam(), .limit_steps = 300});
  ASSERT_TRUE(session.ok()) << session.error().message();
  const Tensor pair(DType::kF32, Shape{2});
  const auto out = session->run(std::vector<Datum>{Tensor(DType::kI64, Shape{}), pair, pair, pair});
  if (GetParam() != BackendKind::kVulkan) {
    EXPECT_TRUE(out.ok()) << out.error().message();
  } else {
    ASSERT_FALSE(out.ok());
    EXPECT_EQ(out.error().code(), ErrorCode::kLimit);
  }
}

TEST(Session, SessionsOfOneModelShareWeights) {
  const Model model = small_model();
  auto a = Session::create(model), b = Session::create(model);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto x = a->run(rows(3)), y = b->run(rows(3));
  ASSERT_TRUE(x.ok() && y.ok());
  EXPECT_EQ((*x)[0].tensor.data<float>()[1], (*y)[0].tensor.data<float>()[1]);
}

TEST(Session, UnknownMethodsAndBackEndsAreNamed) {
  const Model model = small_model();
  EXPECT_NE(Session::create(model, {.method = "other"}).error().message().find("the model has: main"),
            std::string::npos);
  EXPECT_EQ(Session::create(model, {.backend = BackendKind::kVulkan, .device = 99}).error().code(), ErrorCode::kDevice);
}

TEST(Session, ProfileCountsEveryStep) {
  auto session = Session::create(small_model(), {.profile = true});
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->run(rows(2)).ok());
  const auto profile = session->profile();
  ASSERT_FALSE(profile.empty());
  for (const auto& e : profile) EXPECT_EQ(e.calls, 3u) << e.op;
}

/// m = -p, p = positions where x is not 0.
TEST(Session, ProfileNamesKernelsThatTheRunChose) {
  const auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 4}));
  const ValueId p = b.op(Op::kNonZero, make_attrs<NonZeroAttrs>(), {x}).value();
  b.graph().outputs = {b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {p}).value()};
  auto session = Session::create(ModelAccess::make(module), {.profile = true});
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(session->run(rows(1)).ok());
  for (const ProfileEntry& e : session->profile())
    EXPECT_EQ(std::string(e.kernel), e.op == "Unary" ? "unary_unquantized" : "reference") << e.op;
}

}  // namespace
}  // namespace smelt
