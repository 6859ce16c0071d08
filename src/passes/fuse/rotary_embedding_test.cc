#include <gtest/gtest.h>

#include <vector>

#include "ops/attention/attention.h"
#include "passes/passes.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Form;
using test::Forms;

const Shape kHeads{2, 3, 5, 8};  // [B, H, S, D], or [B, S, H, D]

/// x[first : first + 4] along the last of four dimensions.
ValueId half(Forms& f, ValueId x, int64_t first) {
  return f.op(Op::kSliceSize, make_attrs<NoAttrs>(), {x, f.b.i64({0, 0, 0, first}), f.b.i64({-1, -1, -1, 4})});
}
ValueId concat(Forms& f, ValueId a, ValueId b) { return f.op(Op::kConcat, make_attrs<AxisAttrs>(-1), {a, b}); }
ValueId rotary(Forms& f, ValueId x, ValueId cos, ValueId sin) {
  const ValueId x1 = half(f, x, 0), x2 = half(f, x, 4);
  return concat(f, f.binary(Binary::kSub, f.mul(x1, cos), f.mul(x2, sin)),
                f.binary(Binary::kAdd, f.mul(sin, x1), f.mul(x2, cos)));
}

TEST(RotaryEmbedding, HeadsFirstOrLast) {
  check_fused(kHeads,
              [](Forms& f, ValueId x) {
                return rotary(f, x, f.weights({5, 4}), f.weights({1, 1, 5, 4}, 4));
              },
              {"Rotary"});
  check_fused(kHeads,
              [](Forms& f, ValueId x) {
                return rotary(f, x, f.weights({2, 1, 5, 4}), f.weights({2, 1, 5, 4}, 4));
              },
              {"Rotary"});
  check_fused(kHeads,
              [](Forms& f, ValueId x) {
                return rotary(f, x, f.weights({3, 1, 4}), f.weights({1, 3, 1, 4}, 4));
              },
              {"Rotary"});
}

TEST(RotaryEmbedding, PartsOfASplit) {
  check_fused(kHeads,
              [](Forms& f, ValueId x) {
                SplitAttrs a;
                a.axis = 3;
                a.count = 2;
                const auto parts = f.b.node(Op::kSplit, make_attrs<SplitAttrs>(a), {x}, 2);
                EXPECT_TRUE(parts.ok());
                const ValueId x1 = parts->at(0), x2 = parts->at(1), cos = f.weights({5, 4}), sin = f.weights({5, 4}, 4);
                return concat(f, f.binary(Binary::kSub, f.mul(cos, x1), f.mul(sin, x2)),
                              f.binary(Binary::kAdd, f.mul(cos, x2), f.mul(sin, x1)));
              },
              {"Rotary"});
}

// Without the Transposes around it.
TEST(RotaryEmbedding, OfTransposedHeads) {
  const auto form = [](Forms& f, ValueId x) {
    const ValueId turned = rotary(f, f.transpose(x, {0, 2, 1, 3}), f.weights({3, 4}), f.weights({3, 4}, 4));
    return f.unary(Unary::kTanh, f.transpose(turned, {0, 2, 1, 3}));
  };
  check_fused(kHeads, form, {"Rotary", "Unary"});
  Module module;
  module.graphs.resize(1);
  Forms f{Builder(module, 0)};
  Graph& graph = module.graphs[0];
  graph.outputs = {form(f, f.b.input("x", ValueType::tensor(DType::kF32, kHeads)))};
  recompose(graph);
  ASSERT_EQ(graph.nodes.size(), 2U);
  EXPECT_TRUE(static_cast<const RotaryAttrs&>(*graph.nodes[0].attrs).batch_seq_heads);
}

TEST(RotaryEmbedding, OtherSumsStay) {
  const auto expect_apart = [&](const Form& form) {
    auto module = test::module_of_one_graph();
    Forms f{Builder(*module, 0)};
    f.b.graph().outputs = {form(f, f.b.input("x", ValueType::tensor(DType::kF32, kHeads)))};
    const size_t nodes = f.b.graph().nodes.size();
    recompose(f.b.graph());
    EXPECT_EQ(f.b.graph().nodes.size(), nodes);
  };
  expect_apart(  // a table for each head
      [](Forms& f, ValueId x) {
        return rotary(f, x, f.weights({3, 5, 4}), f.weights({3, 5, 4}, 4));
      });
  expect_apart(  // one row for all positions
      [](Forms& f, ValueId x) { return rotary(f, x, f.weights({4}), f.weights({4}, 4)); });
  expect_apart(  // the parts are swapped
      [](Forms& f, ValueId x) {
        const ValueId cos = f.weights({5, 4}), sin = f.weights({5, 4}, 4), x1 = half(f, x, 4), x2 = half(f, x, 0);
        return concat(f, f.binary(Binary::kSub, f.mul(x1, cos), f.mul(x2, sin)),
                      f.binary(Binary::kAdd, f.mul(x2, cos), f.mul(x1, sin)));
      });
  expect_apart(  // the second sum takes the same products
      [](Forms& f, ValueId x) {
        const ValueId cos = f.weights({5, 4}), sin = f.weights({5, 4}, 4), x1 = half(f, x, 0), x2 = half(f, x, 4);
        return concat(f, f.binary(Binary::kSub, f.mul(x1, cos), f.mul(x2, sin)),
                      f.binary(Binary::kAdd, f.mul(x1, cos), f.mul(x2, sin)));
      });
}

}  // namespace
}  // namespace smelt
