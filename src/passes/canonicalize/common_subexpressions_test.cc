#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ops/random/random.h"
#include "passes/passes.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Forms;

/// Operators of a graph of x float32[...] behind merge_common_subexpressions().
std::vector<Op> merged(const Shape& shape, const std::function<std::vector<ValueId>(Forms&, ValueId)>& form) {
  auto module = test::module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, shape));
  f.b.graph().outputs = form(f, x);
  merge_common_subexpressions(module->graphs[0]);
  EXPECT_TRUE(verify(*module).ok());
  std::vector<Op> ops;
  for (const Node& n : module->graphs[0].nodes) ops.push_back(n.op);
  return ops;
}

TEST(MergeCommonSubexpressions, ChainsAndEqualConstants) {
  check_fused({2, 4},
              [](Forms& f, ValueId x) {
                const auto chain = [&] { return f.unary(Unary::kTanh, f.binary(Binary::kAdd, x, f.weights({4}, 7))); };
                return f.mul(chain(), f.unary(Unary::kExp, chain()));
              },
              {"Binary", "Unary", "Unary", "Binary"});
}

TEST(MergeCommonSubexpressions, ViewsAndIndices) {
  check_fused({2, 1, 4},
              [](Forms& f, ValueId x) {
                const auto turned = [&](std::vector<int64_t> perm) {
                  return f.unary(Unary::kTanh, f.transpose(f.reshape(x, {2, 4}), std::move(perm)));
                };
                const ValueId a = f.binary(Binary::kSub, turned({1, 0}), f.unary(Unary::kExp, turned({1, 0})));
                return f.binary(Binary::kSub, a, f.transpose(turned({0, 1}), {1, 0}));
              },
              {"Unary", "Unary", "Binary", "Unary", "Binary"});
}

TEST(MergeCommonSubexpressions, OthersStay) {
  const auto sum = [](Forms& f, ValueId a, ValueId b) { return std::vector{f.binary(Binary::kSub, a, b)}; };
  const auto count = [](const std::vector<Op>& ops, Op op) { return std::ranges::count(ops, op); };
  // Other constants, other attributes.
  EXPECT_EQ(count(merged({4}, [&](Forms& f, ValueId x) { return sum(f, f.mul(x, 2.0), f.mul(x, 3.0)); }), Op::kBinary),
            3);
  EXPECT_EQ(count(merged({4, 4},
                         [&](Forms& f, ValueId x) {
                           return sum(f, f.transpose(x, {1, 0}), f.transpose(x, {0, 1}));
                         }),
                  Op::kTranspose),
            2);
  EXPECT_EQ(count(merged({4, 4},
                         [&](Forms& f, ValueId x) {
                           return sum(f, f.mul(x, f.weights({4, 4}, 1)), f.mul(x, f.weights({4, 4}, 2)));
                         }),
                  Op::kBinary),
            3);
  // Outputs of the graph, and random values.
  EXPECT_EQ(merged({4},
                   [](Forms& f, ValueId x) {
                     return std::vector{f.unary(Unary::kTanh, x), f.unary(Unary::kTanh, x)};
                   })
                .size(),
            2u);
  EXPECT_EQ(merged({4},
                   [&](Forms& f, ValueId x) {
                     const auto random = [&] { return f.op(Op::kRandom, make_attrs<RandomAttrs>(), {f.b.i64({4})}); };
                     return sum(f, f.mul(x, random()), f.mul(x, random()));
                   })
                .size(),
            5u);
}

// exp(x) at the end again: kept from the start, it would be the third large value beside the two of the middle.
TEST(MergeCommonSubexpressions, NoMoreMemory) {
  const auto form = [](bool large) {
    return [large](Forms& f, ValueId x) {
      const ValueId least = f.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {x});
      const auto again = [&] { return f.unary(Unary::kExp, large ? x : f.mean(x)); };
      ValueId y = f.mean(f.mul(again(), f.mean(least)));
      y = f.add(f.unary(Unary::kTanh, f.mul(y, f.weights({64, 256}))), 1);
      return std::vector{f.mul(f.mean(y), again())};
    };
  };
  const auto exponentials = [&](bool large) {
    int n = 0;
    for (const Op op : merged({64, 256}, form(large))) n += op == Op::kUnary;
    return n;
  };
  EXPECT_EQ(exponentials(false), 2);
  EXPECT_EQ(exponentials(true), 3);
}

TEST(MergeCommonSubexpressions, ResultsOfAnotherQuantization) {
  const auto quantized = [](float scale) {
    auto q = std::make_shared<Quantization>();
    q->scales = {scale};
    return ValueType::tensor(DType::kI8, {4}, std::move(q));
  };
  Module module;
  module.graphs.resize(1);
  Graph& g = module.graphs[0];
  const auto value = [&](ValueType type) { return g.add_value({.type = std::move(type)}); };
  const ValueId x = value(ValueType::tensor(DType::kF32, {4}));
  g.inputs = {x};
  for (const float scale : {0.5f, 0.25f, 0.5f}) {
    Node n;
    n.op = Op::kQuantize;
    n.attrs = make_attrs<NoAttrs>();
    n.inputs = {x};
    n.outputs = {value(quantized(scale))};
    const ValueId q = n.outputs[0];
    g.nodes.push_back(std::move(n));
    Node back;
    back.op = Op::kDequantize;
    back.attrs = make_attrs<NoAttrs>();
    back.inputs = {q};
    back.outputs = {value(ValueType::tensor(DType::kF32, {4}))};
    g.outputs.push_back(back.outputs[0]);
    g.nodes.push_back(std::move(back));
  }
  merge_common_subexpressions(g);
  EXPECT_EQ(g.nodes.size(), 5u);
}

}  // namespace
}  // namespace smelt
