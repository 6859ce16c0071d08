#include "ops/control/control.h"

#include <gtest/gtest.h>

#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "runtime/model_access.h"
#include "support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// A module whose graph 0 is the body under construction and whose graph 1, made by `main`, is the method.
struct LoopModel {
  std::shared_ptr<Module> module = std::make_shared<Module>();
  LoopModel() {
    module->format = "test";
    module->graphs.resize(2);
    module->methods.push_back({"main", 1});
  }
  Result<std::vector<Datum>> run(const std::vector<Datum>& inputs, SessionOptions options = {}) {
    options.backend = BackendKind::kReference;
    SMELT_TRY(verify(*module));
    SMELT_ASSIGN(Session session, Session::create(ModelAccess::make(module), options));
    return session.run(inputs);
  }
};

ValueId add(Builder& b, ValueId x, ValueId y) {
  auto r = b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, y});
  EXPECT_TRUE(r.ok());
  return r.ok() ? *r : kNoValue;
}

/// Loop that adds 1 to its carried value and gives every value as a scan output.
LoopModel counting_loop() {
  LoopModel m;
  Builder body(*m.module, 0);
  body.input("i", ValueType::tensor(DType::kI64, Shape{}));
  const ValueId go_on = body.input("go_on", ValueType::tensor(DType::kBool, Shape{}));
  const ValueId x = body.input("x", ValueType::tensor(DType::kF32, Shape{2}));
  const ValueId y = add(body, x, body.f32_scalar(1));
  body.graph().outputs = {go_on, y, y};
  Builder main(*m.module, 1);
  const ValueId trips = main.input("trips", ValueType::tensor(DType::kI64, Shape{}));
  const ValueId start = main.input("start", ValueType::tensor(DType::kF32, Shape{2}));
  LoopAttrs a;
  a.body_graph = 0;
  a.carried = 1;
  auto out = main.node(Op::kLoop, make_attrs<LoopAttrs>(a), {trips, kNoValue, start}, 2);
  EXPECT_TRUE(out.ok());
  if (out.ok()) main.graph().outputs = *out;
  return m;
}

TEST(If, TakesOneBool) {
  for (const Shape& shape : {Shape{}, Shape{1}, Shape{1, 1}, Shape{-1}, Shape{2}, Shape{0}}) {
    Module m;
    m.graphs.resize(2);
    Builder body(m, 0);
    body.graph().outputs = {body.f32_scalar(1)};
    Builder main(m, 1);
    const ValueId condition = main.input("condition", ValueType::tensor(DType::kBool, shape));
    IfAttrs a;
    a.then_graph = a.else_graph = 0;
    const auto out = main.node(Op::kIf, make_attrs<IfAttrs>(a), {condition}, 1);
    EXPECT_EQ(out.ok(), !shape.is_static() || shape.elements() == 1) << shape.str();
    if (!out.ok()) {
      EXPECT_NE(out.error().message().find("one bool expected"), std::string::npos);
    }
  }
}

TEST(Loop, CarriesAndStacks) {
  LoopModel m = counting_loop();
  auto out = m.run({tensor(DType::kI64, {}, {3}), floats({2}, {0, 10})});
  ASSERT_TRUE(out.ok()) << out.error().message();
  expect_equal((*out)[0].tensor, {3, 13});
  EXPECT_EQ((*out)[1].tensor.shape(), (Shape{3, 2}));
  expect_equal((*out)[1].tensor, {1, 11, 2, 12, 3, 13});
}

TEST(Loop, NoTrips) {
  LoopModel m = counting_loop();
  auto out = m.run({tensor(DType::kI64, {}, {0}), floats({2}, {0, 10})});
  ASSERT_TRUE(out.ok()) << out.error().message();
  expect_equal((*out)[0].tensor, {0, 10});
  EXPECT_EQ((*out)[1].tensor.shape(), (Shape{0, 2}));
}

TEST(Loop, EndlessLoopsReachALimit) {
  LoopModel m = counting_loop();
  SessionOptions options;
  options.limit_steps = 5000;
  auto out = m.run({tensor(DType::kI64, {}, {4.6e18}), floats({2}, {0, 10})}, options);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), ErrorCode::kLimit);
  options.limit_steps = 0;
  options.limit_memory = 32 << 20;
  out = m.run({tensor(DType::kI64, {}, {4.6e18}), floats({2}, {0, 10})}, options);
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), ErrorCode::kLimit);
}

TEST(Loop, EndlessLoopsReachTheDefaultLimits) {
  LoopModel m = counting_loop();
  auto out = m.run({tensor(DType::kI64, {}, {4.6e18}), floats({2}, {0, 10})});
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.error().code(), ErrorCode::kLimit);
}

TEST(While, StopsByItsCondition) {
  LoopModel m;
  m.module->graphs.resize(3);
  Builder body(*m.module, 0);
  body.graph().outputs = {add(body, body.input("x", ValueType::tensor(DType::kF32, Shape{})), body.f32_scalar(2))};
  Builder cond(*m.module, 2);
  auto less = cond.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kLess),
                      {cond.input("x", ValueType::tensor(DType::kF32, Shape{})), cond.f32_scalar(7)});
  ASSERT_TRUE(less.ok());
  cond.graph().outputs = {*less};
  Builder main(*m.module, 1);
  WhileAttrs a;
  a.cond_graph = 2;
  a.body_graph = 0;
  auto out = main.op(Op::kWhile, make_attrs<WhileAttrs>(a), {main.input("x", ValueType::tensor(DType::kF32, Shape{}))});
  ASSERT_TRUE(out.ok());
  main.graph().outputs = {*out};
  auto result = m.run({floats({}, {0})});
  ASSERT_TRUE(result.ok()) << result.error().message();
  expect_equal((*result)[0].tensor, {8});
}

TEST(Scan, DirectionsAndAxes) {
  LoopModel m;
  Builder body(*m.module, 0);
  const ValueId sum = body.input("sum", ValueType::tensor(DType::kF32, Shape{}));
  const ValueId x = body.input("x", ValueType::tensor(DType::kF32, Shape{}));
  const ValueId y = add(body, sum, x);
  body.graph().outputs = {y, y};
  Builder main(*m.module, 1);
  ScanAttrs a;
  a.body_graph = 0;
  a.states = a.scans = 1;
  a.input_directions = {1};
  a.output_directions = {1};
  const ValueId start = main.input("start", ValueType::tensor(DType::kF32, Shape{}));
  const ValueId line = main.input("line", ValueType::tensor(DType::kF32, Shape{3}));
  auto out = main.node(Op::kScan, make_attrs<ScanAttrs>(a), {start, line}, 2);
  ASSERT_TRUE(out.ok());
  main.graph().outputs = *out;
  auto result = m.run({floats({}, {0}), floats({3}, {1, 2, 4})});
  ASSERT_TRUE(result.ok()) << result.error().message();
  expect_equal((*result)[0].tensor, {7});
  expect_equal((*result)[1].tensor, {7, 6, 4});
}

}  // namespace
}  // namespace smelt
