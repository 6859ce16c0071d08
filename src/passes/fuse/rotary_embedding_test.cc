#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/attention/attention.h"
#include "passes/passes.h"
#include "tests/support/compare.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"
#include "tests/support/run_module.h"

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

/// x * cos + turned * sin as transformers writes it, for two values of open shape: x [?, 3, ?, 8] and its negative.
/// `angles` [?, ?, 4] and `others` are of the first and second half of a row.
struct TurnedRows {
  Forms f;
  ValueId x, angles, others;

  explicit TurnedRows(Module& module)
      : f{Builder(module, 0)},
        x(f.b.input("x", ValueType::tensor(DType::kF32, Shape{-1, 3, -1, 8}))),
        angles(f.b.input("angles", ValueType::tensor(DType::kF32, Shape{-1, -1, 4}))),
        others(f.b.input("others", ValueType::tensor(DType::kF32, Shape{-1, -1, 4}))) {}
  ValueId table(Unary fn, ValueId second) {
    const ValueId rows = f.mul(f.unary(fn, concat(f, angles, second)), 1.5);
    return f.op(Op::kUnsqueeze, make_attrs<NoAttrs>(), {rows, f.b.i64({1})});
  }
  ValueId part(ValueId v, int64_t first) {
    return f.op(Op::kSlice, make_attrs<NoAttrs>(),
                {v, f.b.i64({first}), f.b.i64({first + 4}), f.b.i64({3}), f.b.i64({1})});
  }
  ValueId turned(ValueId v, ValueId cos, ValueId sin, int64_t first = 0) {
    const ValueId rows = concat(f, f.unary(Unary::kNeg, part(v, 4 - first)), part(v, first));
    return f.binary(Binary::kAdd, f.mul(v, cos), f.mul(sin, rows));
  }
  /// `swapped`: the halves are.
  void build(ValueId second, bool swapped = false) {
    const ValueId cos = table(Unary::kCos, second), sin = table(Unary::kSin, second);
    const ValueId y = f.unary(Unary::kTanh, x);
    f.b.graph().outputs = {turned(x, cos, sin, swapped ? 4 : 0), turned(y, cos, sin, swapped ? 4 : 0)};
  }
};

TEST(RotaryEmbedding, TurnedRowsOfOpenShape) {
  auto module = test::module_of_one_graph();
  TurnedRows rows(*module);
  rows.build(rows.angles);
  ASSERT_TRUE(verify(*module).ok());
  const Model model = ModelAccess::make(module);
  SessionOptions options;
  options.profile = true;
  auto session = Session::create(model, options).value();
  for (const int64_t length : {2, 5, 1})
    for (const Shape& angles : {Shape{2, length, 4}, Shape{1, length, 4}, Shape{2, 1, 4}, Shape{1, 1, 4}}) {
      const Tensor a = test::random_tensor(DType::kF32, angles, -3, 3, 2);
      const std::vector<Datum> in{test::random_tensor(DType::kF32, {2, 3, length, 8}, -3, 3, 1), a, a};
      const auto want = test::run_on_reference(model, in);
      const auto got = session.run(in);
      ASSERT_TRUE(got.ok()) << got.error().message();
      for (size_t i = 0; i < 2; ++i) test::expect_near((*got)[i].tensor, test::values(want.at(i).tensor), 1e-5, 1e-5);
    }
  const auto ran = [&](const char* op) {
    const auto profile = session.profile();
    return std::ranges::any_of(profile, [&](const ProfileEntry& e) { return e.op == op; });
  };
  EXPECT_TRUE(ran("Rotary"));
  EXPECT_FALSE(ran("Concat"));
  const std::vector<Datum> longer{Tensor(DType::kF32, {2, 3, 1, 8}), Tensor(DType::kF32, {1, 4, 4}),
                                  Tensor(DType::kF32, {1, 4, 4})};
  EXPECT_FALSE(session.run(longer).ok());  // x would be broadcast
}

TEST(RotaryEmbedding, RowsTurnedOtherwiseStay) {
  for (const bool swapped : {false, true}) {
    auto module = test::module_of_one_graph();
    TurnedRows rows(*module);
    rows.build(swapped ? rows.angles : rows.others, swapped);
    fuse_turned_rows(module->graphs[0]);
    EXPECT_EQ(std::ranges::count(module->graphs[0].nodes, Op::kRotary, &Node::op), 0);
  }
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
