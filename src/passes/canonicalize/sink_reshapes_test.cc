#include <gtest/gtest.h>

#include <vector>

#include "passes/passes.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {

using test::check_fused;
using test::Forms;

/// Attention of x, 4 heads of 8, whose products are of [batch * heads, rows, columns]; `keys` of them are joined so.
ValueId attention(Forms& f, ValueId x, bool joined_alike) {
  const auto heads = [&](uint32_t seed) {
    return f.transpose(
        f.reshape(f.matmul(x, f.b.constant("", test::random_tensor(DType::kF32, {32, 32}, -0.2, 0.2, seed))),
                  {2, 5, 4, 8}),
        {0, 2, 1, 3});
  };
  const ValueId q = f.mul(heads(3), 0.35), k = f.transpose(heads(4), {0, 1, 3, 2}), v = heads(5);
  const ValueId keys = joined_alike ? f.reshape(k, {8, 8, 5})
                                    : f.reshape(f.transpose(f.reshape(k, {2, 4, 8, 5}), {1, 0, 2, 3}), {8, 8, 5});
  const ValueId scores = f.reshape(f.matmul(f.reshape(q, {8, 5, 8}), keys), {2, 4, 5, 5});
  const ValueId weighted = f.matmul(f.reshape(f.softmax(scores), {8, 5, 5}), f.reshape(v, {8, 5, 8}));
  return f.reshape(f.transpose(f.reshape(weighted, {2, 4, 5, 8}), {0, 2, 1, 3}), {2, 5, 32});
}

/// The operators of attention() with joined products, attention fused, without those that move elements.
std::vector<Op> joined(bool joined_alike) {
  Module module;
  module.graphs.resize(1);
  Forms f{Builder(module, 0)};
  Graph& graph = module.graphs[0];
  graph.outputs = {attention(f, f.b.input("x", ValueType::tensor(DType::kF32, Shape{2, 5, 32})), joined_alike)};
  sink_reshapes(graph);
  fuse_attention(graph);
  std::vector<Op> ops;
  for (const Node& n : graph.nodes)
    if (n.op != Op::kReshape && n.op != Op::kTranspose) ops.push_back(n.op);
  return ops;
}

TEST(SinkReshapes, ProductsOfBatchesOfHeads) {
  EXPECT_EQ(joined(true), (std::vector<Op>{Op::kMatMul, Op::kMatMul, Op::kMatMul, Op::kAttention}));
  EXPECT_EQ(joined(false), (std::vector<Op>{Op::kMatMul, Op::kBinary, Op::kMatMul, Op::kMatMul, Op::kMatMul,
                                            Op::kSoftmax, Op::kMatMul}));
}

// One position of grouped queries: its heads are no more than another shape, and two heads share keys and values.
TEST(SinkReshapes, OnePositionOfGroupedQueries) {
  check_fused({1, 1, 32},
              [](Forms& f, ValueId x) {
                const auto cache = [&](uint32_t seed) {
                  const ValueId heads = f.transpose(f.mul(f.weights({1, 6, 2, 8}, seed), f.mean(x)), {0, 2, 1, 3});
                  return f.op(Op::kExpand, make_attrs<NoAttrs>(),
                              {f.reshape(heads, {1, 2, 1, 6, 8}), f.b.i64({1, 2, 2, 6, 8})});
                };
                const ValueId k = f.transpose(f.mul(f.reshape(cache(5), {1, 4, 6, 8}), 0.7), {0, 1, 3, 2});
                const ValueId scores = f.matmul(f.reshape(x, {4, 1, 8}), f.reshape(k, {4, 8, 6}));
                const ValueId shown = f.binary(Binary::kAdd, f.reshape(scores, {1, 4, 1, 6}), f.weights({1, 1, 1, 6}));
                const ValueId weights = f.reshape(f.softmax(shown), {4, 1, 6});
                return f.reshape(f.matmul(weights, f.reshape(cache(6), {4, 6, 8})), {1, 1, 4, 8});
              },
              {"Reduce", "Binary", "Binary", "Attention"});
}

// The style of torch's converter to TFLite: scores are scaled, and a mask is added, in three dimensions.
TEST(SinkReshapes, ScaledAndMaskedScoresOfThreeDimensions) {
  check_fused({1, 5, 32},
              [](Forms& f, ValueId x) {
                const auto heads = [&](double scale, std::vector<int64_t> perm) {
                  return f.transpose(f.reshape(f.mul(x, scale), {1, 5, 4, 8}), std::move(perm));
                };
                const ValueId q = f.reshape(heads(0.5, {0, 2, 1, 3}), {4, 5, 8});
                const ValueId k = f.reshape(heads(0.7, {0, 2, 3, 1}), {4, 8, 5});
                const ValueId scores = f.mul(f.matmul(q, k), 0.25);
                const ValueId masked = f.binary(Binary::kAdd, scores, f.weights({1, 1, 5, 5}));
                const ValueId v = f.reshape(heads(0.9, {0, 2, 1, 3}), {4, 5, 8});
                const ValueId weighted = f.matmul(f.reshape(f.softmax(masked), {4, 5, 5}), v);
                return f.reshape(f.transpose(f.reshape(weighted, {1, 4, 5, 8}), {0, 2, 1, 3}), {1, 5, 32});
              },
              {"Binary", "Binary", "Binary", "Attention"});
}

TEST(SinkReshapes, SoftmaxAndTransposesOfThreeDimensions) {
  check_fused({2, 5, 32},
              [](Forms& f, ValueId x) {
                const auto heads = [&](double scale) {
                  return f.reshape(f.transpose(f.reshape(f.mul(x, scale), {2, 5, 4, 8}), {0, 2, 1, 3}), {8, 5, 8});
                };
                const ValueId seen = f.softmax(f.add(f.matmul(heads(0.5), f.transpose(heads(0.7), {0, 2, 1})), 0.5));
                const ValueId weighted = f.reshape(f.matmul(seen, heads(0.9)), {2, 4, 5, 8});
                return f.reshape(f.transpose(weighted, {0, 2, 1, 3}), {2, 5, 32});
              },
              {"Binary", "Binary", "Binary", "Attention"});  // the number that is added is a mask
}

ValueId mean_without(Forms& f, ValueId x, const std::vector<int64_t>& axes) {
  ReduceAttrs a;
  a.fn = Reduction::kMean;
  return f.op(Op::kReduce, make_attrs<ReduceAttrs>(a), {x, f.b.i64(axes)});
}

// torch's converter to TFLite: what is one for each row has no dimension for the row's elements.
TEST(SinkReshapes, LayerNormalizationOfRowsWithoutADimension) {
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{0, 2}, std::vector<int64_t>{2, 0}})
    check_fused({1, 6, 24},
                [&](Forms& f, ValueId x) {
                  const auto column = [&](ValueId id) { return f.reshape(id, {1, 6, 1}); };
                  const ValueId mean = mean_without(f, x, axes);
                  const ValueId squares = f.binary(Binary::kSquaredDifference, x, column(mean));
                  const ValueId root = f.unary(Unary::kRsqrt, f.add(mean_without(f, squares, axes), 1e-5));
                  const ValueId shift = f.binary(Binary::kSub, f.b.f32_scalar(0), f.mul(root, mean));
                  const ValueId y = f.binary(Binary::kAdd, f.mul(x, column(root)), column(shift));
                  return f.binary(Binary::kAdd, f.mul(y, f.weights({24})), f.weights({24}, 5));
                },
                {"LayerNorm"});
  check_fused({2, 6, 24},
              [](Forms& f, ValueId x) {
                const ValueId squares = f.add(mean_without(f, f.mul(x, x), {2}), 1e-5);
                return f.mul(x, f.unary(Unary::kRsqrt, f.reshape(squares, {2, 6, 1})));
              },
              {"LayerNorm"});
}

// What reads the value in its own shape keeps it, and so do means of several dimensions.
TEST(SinkReshapes, ValuesThatAreReadInBothShapes) {
  check_fused({1, 6, 24},
              [](Forms& f, ValueId x) {
                const ValueId mean = f.add(mean_without(f, x, {0, 2}), 1);
                const ValueId rows = f.mul(x, f.reshape(mean, {1, 6, 1}));
                return f.mul(f.transpose(rows, {0, 2, 1}), mean);
              },
              {"Reduce", "Binary", "Binary", "Binary"});
  check_fused({2, 6, 24},
              [](Forms& f, ValueId x) {
                return f.mul(x, f.reshape(mean_without(f, x, {0, 2}), {1, 6, 1}));
              },
              {"Reduce", "Reduce", "Binary"});  // dimensions that are no neighbours, one after the other
  check_fused(
      {2, 3, 5, 5},
      [](Forms& f, ValueId x) {
        const ValueId flat = f.reshape(x, {6, 5, 5});
        const ValueId squares = f.reshape(f.matmul(flat, flat), {2, 3, 5, 5});
        const ValueId twice = f.reshape(f.mul(flat, 2), {2, 3, 5, 5});
        const ValueId cubes = f.mul(squares, f.reshape(flat, {2, 3, 5, 5}));
        return f.mul(cubes, twice);
      },
      {"MatMul", "Binary", "Binary", "Binary"}, 2e-4);
}

}  // namespace
}  // namespace smelt
