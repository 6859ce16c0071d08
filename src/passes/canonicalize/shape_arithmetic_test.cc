#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "convert/node_runner.h"
#include "ops/attention/attention.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/canonicalize/extents.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// Builds graphs over x float32[?, ?, 24].
struct Open {
  std::shared_ptr<Module> module = std::make_shared<Module>();
  std::optional<Builder> b;
  ValueId x = kNoValue;

  Open() {
    module->format = "test";
    module->exact_inputs = true;
    module->graphs.resize(1);
    module->methods.push_back({"main", 0});
    b.emplace(*module, 0);
    x = b->input("x", ValueType::tensor(DType::kF32, Shape{-1, -1, 24}));
  }
  ValueId op(Op op, AttrsPtr attrs, std::vector<ValueId> in) {
    auto made = b->op(op, std::move(attrs), in);
    EXPECT_TRUE(made.ok()) << made.error().message();
    return made.ok() ? *made : 0;
  }
  ValueId none(Op which, std::vector<ValueId> in) { return op(which, make_attrs<NoAttrs>(), std::move(in)); }
  ValueId shape_of(ValueId v) { return op(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {v}); }
  /// Dimension d of v as a list of one, as PyTorch's exporters write it.
  ValueId size(ValueId v, int64_t d) {
    const ValueId one = op(Op::kGather, make_attrs<GatherAttrs>(), {shape_of(v), b->i64_scalar(d)});
    return none(Op::kUnsqueeze, {one, b->i64({0})});
  }
  ValueId concat(std::vector<ValueId> parts) { return op(Op::kConcat, make_attrs<AxisAttrs>(0), std::move(parts)); }
  ValueId reshape(ValueId v, ValueId target, bool allow_zero = false) {
    ReshapeAttrs a;
    a.allow_zero = allow_zero;
    return op(Op::kReshape, make_attrs<ReshapeAttrs>(a), {v, target});
  }
  ValueId transpose(ValueId v, std::vector<int64_t> perm) {
    return op(Op::kTranspose, make_attrs<TransposeAttrs>(std::move(perm)), {v});
  }
  ValueId product(ValueId v, ValueId w) { return op(Op::kMatMul, make_attrs<MatMulAttrs>(), {v, w}); }
  /// v times a constant matrix [24, 24], plus a bias.
  ValueId linear(ValueId v, uint32_t seed) {
    const ValueId w = b->constant("", test::random_tensor(DType::kF32, {24, 24}, -0.3, 0.3, seed));
    const ValueId bias = b->constant("", test::random_tensor(DType::kF32, {24}, -1, 1, seed + 1));
    return op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {bias, product(v, w)});
  }
};

using Form = std::function<ValueId(Open&)>;

/// The constant targets of the Reshapes of `form` in their order, {} for one that stays; after a check that results of
/// two shapes stay.
std::vector<std::vector<int64_t>> targets_of(const Form& form) {
  Open open;
  open.b->graph().outputs = {form(open)};
  const auto before = std::make_shared<Module>(*open.module);
  Graph& graph = open.module->graphs[0];
  fold_shape_arithmetic(*open.module, graph, convert::NodeRunner(*open.module).evaluate());
  EXPECT_TRUE(verify(*open.module).ok());
  for (const Shape& shape : {Shape{2, 5, 24}, Shape{1, 3, 24}}) {
    const Tensor x = test::random_tensor(DType::kF32, shape, -1, 1, 1);
    test::expect_near(test::run_on_reference(open.module, x), test::values(test::run_on_reference(before, x)), 0, 0);
  }
  std::vector<std::vector<int64_t>> targets;
  for (const Node& n : graph.nodes) {
    if (n.op != Op::kReshape) continue;
    std::vector<int64_t>& target = targets.emplace_back();
    const Tensor* t = graph.value(n.inputs[1]).constant.get();
    for (int64_t i = 0; t && i < t->elements(); ++i) target.push_back(get_int(*t, i));
  }
  return targets;
}

using Targets = std::vector<std::vector<int64_t>>;
const std::vector<int64_t> kHeads{0, 0, 3, 8};

TEST(ShapeArithmetic, SizesOfWhatTheInputWasMadeOf) {
  EXPECT_EQ(targets_of([](Open& o) {
              const ValueId target = o.concat({o.size(o.x, 0), o.size(o.x, 1), o.b->i64({3, 8})});
              return o.reshape(o.linear(o.x, 1), target);
            }),
            Targets{kHeads});
  EXPECT_EQ(targets_of([](Open& o) {  // x.size()[:-1] + (3, 8)
              const ValueId sizes = o.none(Op::kSlice, {o.shape_of(o.x), o.b->i64({0}), o.b->i64({-1}), o.b->i64({0})});
              return o.reshape(o.linear(o.x, 1), o.concat({sizes, o.b->i64({3, 8})}));
            }),
            Targets{kHeads});
  EXPECT_EQ(targets_of([](Open& o) {  // -1 stays what it is
              return o.reshape(o.x, o.concat({o.size(o.x, 0), o.b->i64({-1, 3, 8})}));
            }),
            (Targets{{0, -1, 3, 8}}));
}

TEST(ShapeArithmetic, StackedScalarsOfAStridedSlice) {
  EXPECT_EQ(
      targets_of([](Open& o) {
        StridedSliceAttrs a;
        a.shrink_axis_mask = 1;
        const ValueId rows = o.op(Op::kStridedSlice, make_attrs<StridedSliceAttrs>(a),
                                  {o.shape_of(o.x), o.b->i64({0}), o.b->i64({1}), o.b->i64({1})});
        const auto number = [&](int64_t n) { return o.b->i64_scalar(n); };
        const ValueId target = o.op(Op::kStack, make_attrs<AxisAttrs>(0), {rows, number(-1), number(3), number(8)});
        return o.reshape(o.x, target);
      }),
      (Targets{{0, -1, 3, 8}}));
}

TEST(ShapeArithmetic, ThroughTransposesProductsAndOtherReshapes) {
  EXPECT_EQ(targets_of([](Open& o) {
              const auto sizes = [&] { return std::vector<ValueId>{o.size(o.x, 0), o.size(o.x, 1)}; };
              const auto with = [&](std::vector<ValueId> list, std::vector<int64_t> rest) {
                list.push_back(o.b->i64(rest));
                return o.concat(std::move(list));
              };
              const ValueId split = o.transpose(o.reshape(o.x, with(sizes(), {3, 8})), {0, 2, 1, 3});
              const ValueId scores = o.product(split, o.transpose(split, {0, 1, 3, 2}));
              const ValueId y = o.product(o.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {scores}), split);
              return o.reshape(o.transpose(y, {0, 2, 1, 3}), with(sizes(), {24}));
            }),
            (Targets{kHeads, {0, 0, 24}}));
}

TEST(ShapeArithmetic, OneEntryMayBeAnother) {
  EXPECT_EQ(targets_of([](Open& o) {  // rows of x joined with a table of as many rows as a run has
              const ValueId table = o.b->constant("", test::random_tensor(DType::kF32, {9, 24}, -1, 1, 3));
              const ValueId rows = o.none(Op::kSlice, {table, o.b->i64({0}), o.size(o.x, 1), o.b->i64({0})});
              const ValueId sum = o.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {o.x, rows});
              return o.reshape(sum, o.concat({o.size(o.x, 0), o.size(o.x, 1), o.b->i64({3, 8})}));
            }),
            (Targets{{0, -1, 3, 8}}));
}

TEST(ShapeArithmetic, NumbersThatFollowFromDimensions) {
  const auto depth = [](Open& o) {  // 24 / 3, as the size of a head is computed
    const ValueId parts = o.b->i64({3});
    return o.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kDiv), {o.size(o.x, 2), parts});
  };
  EXPECT_EQ(targets_of([&](Open& o) {
              return o.reshape(o.linear(o.x, 1), o.concat({o.size(o.x, 0), o.size(o.x, 1), o.b->i64({3}), depth(o)}));
            }),
            Targets{kHeads});
  EXPECT_EQ(targets_of([&](Open& o) {  // a third of the columns
              const ValueId part = o.none(Op::kSlice, {o.linear(o.x, 1), o.b->i64({0}), depth(o), o.b->i64({2})});
              return o.reshape(part, o.concat({o.size(o.x, 0), o.size(o.x, 1), o.b->i64({2, 4})}));
            }),
            (Targets{{0, 0, 2, 4}}));
}

TEST(ShapeArithmetic, DimensionsThatCallersChangeAreNoNumbers) {
  Open o;
  o.b->graph().values[static_cast<size_t>(o.x)].type.shape = Shape{2, 5, 24};
  o.b->graph().outputs = {o.reshape(o.linear(o.x, 1), o.concat({o.size(o.x, 1), o.b->i64({-1})}))};
  Graph& graph = o.module->graphs[0];
  for (const bool exact : {false, true}) {
    o.module->exact_inputs = exact;
    fold_shape_arithmetic(*o.module, graph, convert::NodeRunner(*o.module).evaluate());
    EXPECT_EQ(graph.value(graph.nodes.back().inputs[1]).constant != nullptr, exact);
  }
}

TEST(ShapeArithmetic, SizesInOtherPlacesOrOfOtherValuesStay) {
  EXPECT_EQ(targets_of([](Open& o) {  // the sizes change places
              return o.reshape(o.x, o.concat({o.size(o.x, 1), o.size(o.x, 0), o.b->i64({24})}));
            }),
            Targets{{}});
  EXPECT_EQ(targets_of([](Open& o) {  // both become one dimension
              const ValueId count =
                  o.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {o.size(o.x, 0), o.size(o.x, 1)});
              return o.reshape(o.x, o.concat({count, o.b->i64({24})}));
            }),
            Targets{{}});
}

TEST(ShapeArithmetic, OneEntryIsTheDimensionThatIsLeft) {
  EXPECT_EQ(targets_of([](Open& o) {
              const ValueId y = o.reshape(o.x, o.concat({o.b->i64({-1}), o.size(o.x, 1), o.b->i64({24})}));
              return o.reshape(o.linear(y, 1), o.concat({o.size(o.x, 0), o.b->i64({-1}), o.b->i64({24, 1})}));
            }).back(),
            (std::vector<int64_t>{0, -1, 24, 1}));
}

TEST(ShapeArithmetic, EqualListsAreMadeOnce) {
  Open o;
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  mean.keep_dims = true;
  const ValueId centred = o.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kSub),
                               {o.x, o.op(Op::kReduce, make_attrs<ReduceAttrs>(mean), {o.x, o.b->i64({-1})})});
  // Heads that are repeated: their length is that of x.
  const ValueId heads = o.reshape(centred, o.concat({o.size(centred, 0), o.size(centred, 1), o.b->i64({3, 1, 8})}));
  const ValueId copies = o.none(Op::kExpand, {heads, o.b->i64({1, 1, 3, 2, 8})});
  const ValueId joined = o.reshape(copies, o.concat({o.size(o.x, 0), o.b->i64({-1, 6, 8})}));
  const ValueId last = o.reshape(joined, o.concat({o.size(joined, 1), o.size(joined, 0), o.b->i64({48})}));
  Graph& graph = o.module->graphs[0];
  graph.outputs = {last, o.size(joined, 1)};
  const auto before = std::make_shared<Module>(*o.module);
  fold_shape_arithmetic(*o.module, graph, convert::NodeRunner(*o.module).evaluate());
  EXPECT_TRUE(verify(*o.module).ok());
  const auto is_list = [&](const Node& n) { return n.op == Op::kGather; };
  EXPECT_EQ(std::ranges::count_if(graph.nodes, is_list), 2);  // dimensions 0 and 1 of x
  const Tensor x = test::random_tensor(DType::kF32, {2, 5, 24}, -1, 1, 1);
  test::expect_near(test::run_on_reference(o.module, x), test::values(test::run_on_reference(before, x)), 0, 0);
}

TEST(ShapeArithmetic, LiteralZeroThatMeansZeroStays) {
  Open o;
  const ValueId target = o.concat({o.size(o.x, 0), o.b->i64({0, 24})});
  o.b->graph().outputs = {o.reshape(o.x, target, true)};
  Graph& graph = o.module->graphs[0];
  const size_t nodes = graph.nodes.size();
  fold_shape_arithmetic(*o.module, graph, convert::NodeRunner(*o.module).evaluate());
  EXPECT_EQ(graph.nodes.size(), nodes);
}

TEST(ShapeArithmetic, AttentionOfOpenShapeIsOneNode) {
  Open o;
  const auto heads = [&](uint32_t seed) {
    const ValueId target = o.concat({o.size(o.x, 0), o.size(o.x, 1), o.b->i64({3, 8})});
    return o.transpose(o.reshape(o.linear(o.x, seed), target), {0, 2, 1, 3});
  };
  const ValueId scores = o.product(heads(1), o.transpose(heads(3), {0, 1, 3, 2}));
  o.b->graph().outputs = {o.product(o.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {scores}), heads(5))};
  Graph& graph = o.module->graphs[0];
  fold_shape_arithmetic(*o.module, graph, convert::NodeRunner(*o.module).evaluate());
  fuse_attention(graph);
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::kAttention, &Node::op), 1);
  EXPECT_EQ(std::ranges::count(graph.nodes, Op::kSoftmax, &Node::op), 0);
}

TEST(ShapeArithmetic, ShapesBehindAreTold) {
  Open o;
  const ValueId target = o.concat({o.size(o.x, 0), o.size(o.x, 1), o.b->i64({3, 8})});
  const ValueId y = o.transpose(o.reshape(o.linear(o.x, 1), target), {0, 2, 1, 3});
  o.b->graph().outputs = {y};
  fold_shape_arithmetic(*o.module, o.module->graphs[0], convert::NodeRunner(*o.module).evaluate());
  EXPECT_EQ(o.module->graphs[0].value(y).type.shape, (Shape{-1, 3, -1, 8}));
}

/// Dimensions of y = x + Expand(1.0 [1], target), where the target is a sum of lists that the shape rules do not
/// compute.
Shape sum_with_expanded(bool constant) {
  Open o;
  const ValueId x = o.b->input("y", ValueType::tensor(DType::kF32, Shape{1, 5, 24}));
  const ValueId given = o.b->input("given", ValueType::tensor(DType::kI64, Shape{3}));
  const ValueId list = constant ? o.b->i64({0, 4, 23}) : given;
  const ValueId target = o.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {list, o.b->i64({1, 1, 1})});
  const ValueId one = o.b->constant("", test::random_tensor(DType::kF32, {1}, 0, 1, 1));
  const ValueId wide = o.none(Op::kExpand, {one, target});
  const ValueId y = o.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, wide});
  Graph& graph = o.module->graphs[0];
  graph.outputs = {y};
  const convert::NodeRunner runner(*o.module);
  fold_shape_arithmetic(*o.module, graph, runner.evaluate(), fold_constants(graph, runner.evaluate()));
  EXPECT_TRUE(verify(*o.module).ok());
  return graph.value(y).type.shape;
}

TEST(ShapeArithmetic, ShapesThatFollowFromFoldedConstants) {
  EXPECT_EQ(sum_with_expanded(true), (Shape{1, 5, 24}));
  EXPECT_FALSE(sum_with_expanded(false).is_static());
}

TEST(ExtentFlow, BoundsOfAClampBroadcast) {
  Open o;
  const auto clamp = [&](const Shape& bound) {
    const ValueId high = o.b->input("high", ValueType::tensor(DType::kF32, bound));
    return o.none(Op::kClamp, {o.x, kNoValue, high});
  };
  const ValueId narrow = clamp({1, 24}), wide = clamp({-1, -1, 24});
  const Graph& graph = o.module->graphs[0];
  ExtentFlow flow(graph, true);
  for (const Node& n : graph.nodes) flow.add(n);
  EXPECT_EQ(flow.dims(narrow), flow.dims(o.x));
  EXPECT_EQ(flow.dims(wide)[0], (Extent{wide, 0}));
}

}  // namespace
}  // namespace smelt
