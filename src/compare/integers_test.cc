// Integers of two formats side by side: indices into tables, quantized values.
#include <gtest/gtest.h>

#include <set>

#include "compare/compare.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "tensor/numeric.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {

/// Rows of a table bring pages of the mapped file with them.
TEST(CompareIntegers, ReadsLargeTablesInAFewPlaces) {
  for (const int64_t rows : {int64_t{1000}, int64_t{40000}}) {
    Module m;
    m.graphs.emplace_back();
    Builder b(m, 0);
    const ValueId x = b.input("x", ValueType::tensor(DType::kI64, Shape{1, 512}));
    const ValueId table = b.constant("table", Tensor(DType::kF32, {rows, 64}));
    ASSERT_TRUE(b.op(Op::kGather, make_attrs<GatherAttrs>(), {table, x}).ok());
    std::vector<Datum> inputs{Datum(Tensor(DType::kI64, {1, 512}))};
    spread_indices(m.graphs[0], inputs, 3);
    std::set<int64_t> places, words;
    for (int64_t i = 0; i < 512; ++i) {
      const int64_t word = get_int(inputs[0].tensor, i);
      ASSERT_TRUE(word >= 0 && word < rows);
      words.insert(word);
      places.insert(word / 100);
    }
    EXPECT_GT(words.size(), 150u);
    EXPECT_GE(places.size(), 3u);
    EXPECT_LE(places.size(), rows == 1000 ? 10u : 8u);
    EXPECT_TRUE(places.contains(0) && places.contains(rows / 100 - 1));
  }
}

/// What a QuantizeLinear gives has no parameters in its graph; it is the same as a quantized value of another format.
TEST(CompareIntegers, PairsQuantizedValuesWithWhatIsQuantizedLinearly) {
  const auto model = [](bool typed) {
    auto m = std::make_shared<Module>();
    m->graphs.emplace_back();
    m->methods.push_back({.name = "main"});
    Builder b(*m, 0);
    const float scale = 0.25f;
    const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{4, 64}));
    ValueId y = b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kTanh), {x}).value();
    if (typed) {
      ValueType t = ValueType::tensor(DType::kI8, Shape{4, 64});
      t.quant = test::per_tensor(scale, 3);
      Node n;
      n.op = Op::kQuantize;
      n.attrs = make_attrs<NoAttrs>();
      n.inputs = {y};
      y = b.graph().add_value({});
      b.graph().value(y).type = t;
      n.outputs = {y};
      b.graph().nodes.push_back(std::move(n));
      y = b.op(Op::kDequantize, make_attrs<NoAttrs>(), {y}).value();
    } else {
      QuantizeLinearAttrs a;
      a.to = DType::kI8;
      const ValueId s = b.f32_scalar(scale), z = b.constant("z", test::tensor(DType::kI8, {}, {3}));
      y = b.op(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(a), {y, s, z}).value();
      a.to = DType::kF32;
      y = b.op(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(a), {y, s, z}).value();
    }
    b.graph().outputs = {y};
    return m;
  };
  const auto first = model(true), second = model(false);
  for (const auto& [p, q] : {std::pair(first, second), std::pair(second, first)}) {
    const auto a = open_module("a", p, 0, {}), b = open_module("b", q, 0, {});
    ASSERT_TRUE(a.ok() && b.ok());
    const std::vector<Draw> draws{{"random", {Datum(test::random_tensor(DType::kF32, {4, 64}, -1, 1, 5))}}};
    const auto c = compare(**a, **b, draws, {});
    ASSERT_TRUE(c.ok()) << c.error().message();
    EXPECT_FALSE(c->differ());
    EXPECT_EQ(c->unpaired_first + c->unpaired_second, 0u);
  }
}

}  // namespace
}  // namespace smelt
