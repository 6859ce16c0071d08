// Loops of other formats, which count their rounds in a variable, as ONNX's Loop.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "convert/convert.h"
#include "ops/control/control.h"
#include "ops/core/builder.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "runtime/model_access.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

const ValueType kNumber = ValueType::tensor(DType::kI64, Shape{}), kTruth = ValueType::tensor(DType::kBool, Shape{}),
                kState = ValueType::tensor(DType::kF32, {2});

ValueId binary(Builder& b, Binary fn, ValueId x, ValueId y) {
  const auto out = b.op(Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y});
  EXPECT_TRUE(out.ok());
  return out.ok() ? *out : kNoValue;
}

/// x = x * step + round for `rounds` rounds; `stops`: while the sum of that stays below 100 as well.
std::shared_ptr<Module> loop(bool stops) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(2);
  module->methods.push_back({.name = "main", .graph = 0});
  Builder body(*module, 1);
  body.graph().name = "body";
  const ValueId round = body.input("round", kNumber), condition = body.input("condition", kTruth),
                x = body.input("x", kState), y = body.input("y", kNumber), step = body.input("step", kState);
  const auto real = body.op(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {round});
  EXPECT_TRUE(real.ok());
  const ValueId next = binary(body, Binary::kAdd, binary(body, Binary::kMul, x, step), *real);
  const ValueId sum = binary(body, Binary::kAdd, y, round);
  const ValueId below = binary(body, Binary::kLess, sum, body.constant("", [] {
    Tensor t(DType::kI64, Shape{});
    *t.data<int64_t>() = 5;
    return t;
  }()));
  body.graph().outputs = {stops ? below : condition, next, sum};
  Builder main(*module, 0);
  main.graph().name = "main";
  const ValueId rounds = main.input("rounds", kNumber), first = main.input("x", kState),
                factor = main.input("step", kState);
  Tensor zero(DType::kI64, Shape{}), yes(DType::kBool, Shape{});
  *yes.data<bool>() = true;
  LoopAttrs a;
  a.body_graph = 1;
  a.carried = 2;
  const ValueId last = main.value("last", kState), total = main.value("total", kNumber);
  EXPECT_TRUE(main.node_to(Op::kLoop, make_attrs<LoopAttrs>(a),
                           {rounds, main.constant("yes", yes), first, main.constant("zero", zero), factor},
                           {last, total})
                  .ok());
  main.graph().outputs = {last, total};
  return module;
}

TEST(CountedLoops, ComeBackFromOtherFormats) {
  for (const bool stops : {false, true})
    for (const char* through : {"tflite", "pte"})
      for (const int64_t rounds : {0, 3, 9}) {
        SCOPED_TRACE(testing::Message() << through << ", " << rounds << " rounds, stops " << stops);
        const auto there = test::rewritten(ModelAccess::make(loop(stops)), through);
        ASSERT_TRUE(there.ok()) << there.error().message();
        Tensor n(DType::kI64, Shape{});
        *n.data<int64_t>() = rounds;
        const auto back = test::rewritten(*there, "onnx");
        ASSERT_TRUE(back.ok()) << back.error().message();
        const Graph& graph = module_of(*back).graphs[static_cast<size_t>(module_of(*back).methods[0].graph)];
        const auto found = std::ranges::find(graph.nodes, Op::kLoop, &Node::op);
        ASSERT_NE(found, graph.nodes.end());
        EXPECT_NE(found->inputs[0], kNoValue) << "the most rounds";
        const std::vector<Datum> fed{Datum(n), Datum(test::random_tensor(DType::kF32, {2}, -1, 1, 1)),
                                     Datum(test::random_tensor(DType::kF32, {2}, -1, 1, 2))};
        const auto want = test::run_on_reference(ModelAccess::make(loop(stops)), fed),
                   got = test::run_on_reference(*back, fed);
        ASSERT_EQ(got.size(), want.size());
        for (size_t i = 0; i < got.size(); ++i)
          for (int64_t k = 0; k < want[i].tensor.elements(); ++k)
            EXPECT_EQ(get_double(got[i].tensor, k), get_double(want[i].tensor, k)) << "output " << i;
      }
}

/// A variable that the reader wants behind the loop stays one.
TEST(CountedLoops, KeepACountThatIsRead) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.resize(3);
  module->methods.push_back({.name = "main", .graph = 0});
  Tensor zero(DType::kI64, Shape{}), one(DType::kI64, Shape{});
  *one.data<int64_t>() = 1;
  Builder body(*module, 1), cond(*module, 2), main(*module, 0);
  const ValueId i = body.input("i", kNumber), n = body.input("n", kNumber);
  body.graph().outputs = {binary(body, Binary::kAdd, i, body.constant("one", one)), n};
  const ValueId at = cond.input("i", kNumber);
  cond.graph().outputs = {binary(cond, Binary::kLess, at, cond.input("n", kNumber))};
  WhileAttrs a;
  a.cond_graph = 2;
  a.body_graph = 1;
  const ValueId limit = main.input("n", kNumber), count = main.value("count", kNumber);
  ASSERT_TRUE(main.node_to(Op::kWhile, make_attrs<WhileAttrs>(a), {main.constant("zero", zero), limit},
                           {count, main.value("", kNumber)})
                  .ok());
  main.graph().outputs = {count};
  Tensor rounds(DType::kI64, Shape{});
  *rounds.data<int64_t>() = 4;
  test::expect_same_written(module, {Datum(rounds)}, "onnx");
}

}  // namespace
}  // namespace smelt
