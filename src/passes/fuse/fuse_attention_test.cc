#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "tests/support/exporter_forms.h"

namespace smelt {
namespace {
using test::check_fused;
using test::Forms;
using test::kRowsOf24;

/// 3 heads of 8 elements.
ValueId heads(Forms& f, ValueId x, const std::vector<int64_t>& perm) {
  return f.transpose(f.reshape(x, {0, -1, 3, 8}), perm);
}
ValueId join(Forms& f, ValueId y) { return f.reshape(f.transpose(y, {0, 2, 1, 3}), {0, -1, 24}); }

TEST(FuseAttention, DividedAndMasked) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  for (const Shape& mask : {Shape{2, 1, 1, 5}, Shape{5, 5}, Shape{1, 3, 5, 5}})
    check_fused(kRowsOf24,
                [&](Forms& f, ValueId x) {
                  const ValueId q = heads(f, x, swap), k = heads(f, f.mul(x, f.weights({24})), {0, 2, 3, 1});
                  const ValueId scores = f.binary(Binary::kDiv, f.matmul(q, k), std::sqrt(8.0));
                  const ValueId seen = f.softmax(f.binary(Binary::kAdd, f.weights(mask, 9), scores));
                  return join(f, f.matmul(seen, heads(f, f.add(x, 1), swap)));
                },
                {"Binary", "Binary", "Attention"});
}

// T5's: a bias of positions and a mask, the same for all layers.
TEST(FuseAttention, BiasAndMask) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  check_fused(
      kRowsOf24,
      [&](Forms& f, ValueId x) {
        const ValueId bias = f.weights({1, 3, 5, 5}, 3), mask = f.unary(Unary::kAbs, f.weights({2, 1, 1, 5}, 9));
        const auto layer = [&](ValueId rows) {
          const ValueId q = heads(f, rows, swap), k = f.transpose(q, {0, 1, 3, 2});
          const ValueId biased = f.binary(Binary::kAdd, f.matmul(q, k), bias);
          return join(f, f.matmul(f.softmax(f.binary(Binary::kAdd, biased, mask)), q));
        };
        return layer(layer(f.mul(x, 0.1)));
      },
      {"Binary", "Attention", "Attention"});  // the sum of both is a constant
}

// Swin's: windows of a picture have masks of their own.
TEST(FuseAttention, MasksOfWindows) {
  const auto windows = [](const Shape& mask, int64_t pictures, int64_t parts, bool biased) {
    return [=](Forms& f, ValueId x) {
      const ValueId q = heads(f, x, {0, 2, 1, 3});
      ValueId scores = f.matmul(q, f.transpose(q, {0, 1, 3, 2}));
      if (biased) scores = f.binary(Binary::kAdd, scores, f.weights({1, 3, 5, 5}, 3));
      const ValueId split = f.reshape(scores, {pictures, mask[1], parts, 5, 5});
      const ValueId masked = f.binary(Binary::kAdd, split, f.weights(mask, 9));
      return join(f, f.matmul(f.softmax(f.reshape(masked, {-1, 3, 5, 5})), q));
    };
  };
  for (const bool biased : {false, true})
    for (const int64_t pictures : {1, 2})
      check_fused({2 * pictures, 5, 24}, windows({1, 2, 1, 5, 5}, pictures, 3, biased), {"Attention"});
  check_fused({2, 5, 24}, windows({1, 2, 3, 5, 5}, 1, 3, false), {"MatMul", "Softmax", "MatMul"});  // masks of heads
  check_fused({2, 5, 24}, windows({1, 3, 1, 5, 5}, 1, 2, false), {"MatMul", "Binary", "Softmax", "MatMul"});
}

// torch's MultiheadAttention: [S, B, H * D], keys turned where the heads are part of the batch.
TEST(FuseAttention, SequenceBeforeBatch) {
  enum class Other : uint8_t { kNobody, kReadsQueries, kReadsKeys };
  const auto attention = [](int64_t batch, Other other) {
    return [=](Forms& f, ValueId x) {
      const auto part = [&](ValueId v) { return f.transpose(f.reshape(v, {5, batch * 3, 8}), {1, 0, 2}); };
      const ValueId q = f.mul(f.reshape(part(x), {batch, 3, 5, 8}), 0.6);
      const ValueId turned = f.transpose(part(f.add(x, 1)), {0, 2, 1});
      const ValueId k = f.mul(f.reshape(turned, {batch, 3, 8, 5}), 0.6);
      const ValueId v = f.reshape(part(f.mul(x, f.weights({24}))), {batch, 3, 5, 8});
      const ValueId y = f.transpose(f.matmul(f.softmax(f.matmul(q, k)), v), {2, 0, 1, 3});
      const ValueId joined = f.reshape(y, {5 * batch, 24});
      if (other == Other::kNobody) return joined;
      return f.binary(Binary::kAdd, joined, f.reshape(other == Other::kReadsKeys ? k : q, {5 * batch, 24}));
    };
  };
  const std::vector<std::string> fused{"Binary", "Binary", "Attention"};
  check_fused({5, 1, 24}, attention(1, Other::kNobody), fused);
  check_fused({5, 2, 24}, attention(2, Other::kNobody), fused);
  check_fused({5, 1, 24}, attention(1, Other::kReadsQueries), {"Binary", "Binary", "Binary", "Attention", "Binary"});
  check_fused({5, 1, 24}, attention(1, Other::kReadsKeys),
              {"Binary", "Binary", "Binary", "Binary", "MatMul", "Softmax", "MatMul", "Binary"});
}

// SqueezeBERT's: [B, H * D, S] of 1x1 convolutions.
TEST(FuseAttention, ChannelsBeforeSequence) {
  enum class Other : uint8_t { kNobody, kReadsKeys, kReadsQueries };
  const auto attention = [](Other other) {
    return [=](Forms& f, ValueId x) {  // [2, 24, 5]
      const auto split = [&](ValueId v) { return f.reshape(v, {2, 3, 8, 5}); };
      const ValueId q = f.transpose(split(f.mul(x, f.weights({24, 1}))), {0, 1, 3, 2}), k = split(f.mul(x, 0.5));
      const ValueId v = f.transpose(split(f.add(x, 1)), {0, 1, 3, 2});
      const ValueId scores = f.binary(Binary::kDiv, f.matmul(q, k), std::sqrt(8.0));
      const ValueId seen = f.softmax(f.binary(Binary::kAdd, scores, f.weights({2, 1, 1, 5}, 9)));
      const ValueId y = f.reshape(f.transpose(f.matmul(seen, v), {0, 1, 3, 2}), {2, 24, 5});
      if (other == Other::kNobody) return y;
      return f.binary(Binary::kAdd, y, f.reshape(other == Other::kReadsKeys ? k : q, {2, 24, 5}));
    };
  };
  check_fused({2, 24, 5}, attention(Other::kNobody), {"Binary", "Binary", "Binary", "Attention"});
  check_fused({2, 24, 5}, attention(Other::kReadsQueries), {"Binary", "Binary", "Binary", "Attention", "Binary"});
  check_fused({2, 24, 5}, attention(Other::kReadsKeys),
              {"Binary", "Binary", "Binary", "MatMul", "Binary", "Binary", "Softmax", "MatMul", "Binary"});
}

// MaxViT's: [B, W, S, H * D], W windows of a picture.
TEST(FuseAttention, WindowsBesideTheBatch) {
  const auto attention = [](const Shape& mask, bool turned) {
    return [=](Forms& f, ValueId x) {  // [2, 4, 5, 24]
      const auto part = [&](ValueId v, std::vector<int64_t> perm) {
        return f.transpose(f.reshape(v, {2, 4, 5, 3, 8}), std::move(perm));
      };
      const ValueId q = f.mul(part(x, {0, 1, 3, 2, 4}), 0.3), v = part(f.add(x, 1), {0, 1, 3, 2, 4});
      const ValueId keys = f.mul(x, f.weights({24}));
      const ValueId k =
          turned ? f.transpose(part(keys, {0, 1, 3, 2, 4}), {0, 1, 2, 4, 3}) : part(keys, {0, 1, 3, 4, 2});
      const ValueId scores = f.binary(Binary::kAdd, f.matmul(q, k), f.weights(mask, 9));
      const ValueId y = f.transpose(f.matmul(f.softmax(scores), v), {0, 1, 3, 2, 4});
      return f.reshape(y, {2, 4, 5, 24});
    };
  };
  for (const bool turned : {false, true})
    for (const Shape& mask : {Shape{3, 5, 5}, Shape{1, 3, 5, 5}, Shape{5}})
      check_fused({2, 4, 5, 24}, attention(mask, turned), {"Binary", "Binary", "Attention"});
  // Windows that have masks of their own.
  check_fused({2, 4, 5, 24}, attention({4, 1, 5, 5}, false),
              {"Binary", "Binary", "Binary", "MatMul", "Binary", "Softmax", "MatMul"});
}

// torch's multi_head_attention_forward: heads and batch are one dimension.
TEST(FuseAttention, HeadsAndBatchInOneDimension) {
  for (const int64_t batch : {1, 2})
    check_fused({5, batch, 24},
                [&](Forms& f, ValueId x) {
                  const auto part = [&](ValueId v, std::vector<int64_t> perm) {
                    return f.transpose(f.reshape(v, {5, batch * 3, 8}), std::move(perm));
                  };
                  const ValueId q = f.mul(part(x, {1, 0, 2}), 0.3), v = part(f.add(x, 1), {1, 0, 2});
                  const ValueId k = part(f.mul(x, f.weights({24})), {1, 2, 0});
                  const ValueId bias = f.unary(Unary::kAbs, f.reshape(f.mul(x, 2.0), {batch * 3, 5, 8}));
                  const ValueId mask = f.matmul(bias, f.weights({8, 5}));
                  const ValueId seen = f.softmax(f.binary(Binary::kAdd, f.matmul(q, k), mask));
                  return f.reshape(f.transpose(f.matmul(seen, v), {1, 0, 2}), {5 * batch, 24});
                },
                {"Binary", "Binary", "Binary", "Unary", "MatMul", "Attention"});
  check_fused({3, 5, 8},  // not made of [S, H * D]
              [&](Forms& f, ValueId x) {
                return f.matmul(f.softmax(f.matmul(x, f.transpose(x, {0, 2, 1}))), x);
              },
              {"MatMul", "Softmax", "MatMul"});
}

// Gemma 2's: c * tanh(scores / c).
TEST(FuseAttention, BoundedScores) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  for (const double cap : {0.75, -0.75}) {
    const auto form = [&](Forms& f, ValueId x) {
      const ValueId q = heads(f, x, swap);
      const ValueId scores = f.mul(f.matmul(q, f.transpose(q, {0, 1, 3, 2})), 0.25);
      const ValueId bounded = f.mul(f.unary(Unary::kTanh, f.binary(Binary::kDiv, scores, cap)), cap);
      return join(f, f.matmul(f.softmax(f.binary(Binary::kAdd, bounded, f.weights({5, 5}, 9))), q));
    };
    if (cap > 0)
      check_fused(kRowsOf24, form, {"Attention"});
    else
      check_fused(kRowsOf24, form, {"MatMul", "Binary", "Unary", "Binary", "Binary", "Softmax", "MatMul"});
  }
}

TEST(FuseAttention, PermutationsThatAreInputs) {
  check_fused(kRowsOf24,
              [&](Forms& f, ValueId x) {
                const auto turned = [&](std::vector<int64_t> perm) {
                  const ValueId split = f.reshape(x, {2, 5, 3, 8}), order = f.b.i64(perm);
                  return f.op(Op::kTranspose, make_attrs<TransposeAttrs>(), {split, order});
                };
                const ValueId q = turned({0, 2, 1, 3});
                return join(f, f.matmul(f.softmax(f.matmul(q, turned({0, 2, 3, 1}))), q));
              },
              {"Attention"});
}

/// Part `i` [2, 3, 5, 8] of queries, keys and values of x [2, 5, 24] that one product makes.
ValueId joint_part(Forms& f, ValueId parts, int64_t i) {
  return f.op(Op::kGather, make_attrs<GatherAttrs>(), {parts, f.b.i64_scalar(i)});
}

TEST(FuseAttention, OneProductOfQueriesKeysAndValues) {
  const auto parts = [](Forms& f, ValueId x) {
    return f.transpose(f.reshape(f.matmul(x, f.weights({24, 72})), {2, 5, 3, 3, 8}), {2, 0, 3, 1, 4});
  };
  check_fused(kRowsOf24,
              [&](Forms& f, ValueId x) {
                const ValueId all = parts(f, f.mul(x, 0.1));
                const ValueId q = f.mul(joint_part(f, all, 0), 0.35), v = joint_part(f, all, -1);
                const ValueId k = f.transpose(joint_part(f, all, 1), {0, 1, 3, 2});
                return join(f, f.matmul(f.softmax(f.matmul(q, k)), v));
              },
              {"Binary", "MatMul", "Split", "Attention"});
  check_fused(kRowsOf24,
              [&](Forms& f, ValueId x) {
                SplitAttrs a;
                a.count = 3;
                auto split = f.b.node(Op::kSplit, make_attrs<SplitAttrs>(a), {parts(f, f.mul(x, 0.1))}, 3);
                EXPECT_TRUE(split.ok());
                std::vector<ValueId> heads;
                for (const ValueId slice : *split)
                  heads.push_back(f.op(Op::kSqueeze, make_attrs<NoAttrs>(), {slice, f.b.i64({0})}));
                const ValueId k = f.transpose(heads[1], {0, 1, 3, 2});
                return join(f, f.matmul(f.softmax(f.matmul(heads[0], k)), heads[2]));
              },
              {"Binary", "MatMul", "Split", "Attention"});
  for (const bool rows_alone : {false, true})  // by torch's converter to TFLite; rows_alone: x is [10, 24]
    check_fused(kRowsOf24,
                [&](Forms& f, ValueId x) {
                  const ValueId rows = rows_alone ? f.reshape(f.mul(x, 0.1), {10, 24}) : f.mul(x, 0.1);
                  const ValueId all = parts(f, rows);
                  const auto part = [&](int64_t i) {
                    const ValueId begin = f.b.i64({i, 0, 0, 0, 0}), size = f.b.i64({1, 2, 3, 5, 8});
                    return f.reshape(f.op(Op::kSliceSize, make_attrs<NoAttrs>(), {all, begin, size}), {2, 3, 5, 8});
                  };
                  const ValueId scores = f.matmul(part(0), f.transpose(part(1), {0, 1, 3, 2}));
                  return join(f, f.matmul(f.softmax(scores), part(2)));
                },
                {"Binary", "MatMul", "Split", "Attention"});
  check_fused(kRowsOf24,  // the keys are normalized before
              [&](Forms& f, ValueId x) {
                const ValueId all = parts(f, f.mul(x, 0.1));
                const ValueId q = joint_part(f, all, 0), k = f.softmax(joint_part(f, all, 1));
                return f.matmul(f.softmax(f.matmul(q, f.transpose(k, {0, 1, 3, 2}))), joint_part(f, all, 2));
              },
              {"Binary", "MatMul", "Gather", "Gather", "Softmax", "Gather", "Attention"});
}

TEST(FuseAttention, RootOfTheScaleAndGuardedRows) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  for (const bool guarded : {false, true})
    check_fused(
        kRowsOf24,
        [&](Forms& f, ValueId x) {
          const double root = std::pow(8.0, -0.25);
          const ValueId q = f.mul(heads(f, x, swap), root), k = heads(f, x, swap);
          ValueId seen = f.softmax(f.matmul(q, f.mul(f.transpose(k, {0, 1, 3, 2}), root)));
          if (guarded)
            seen = f.op(Op::kWhere, make_attrs<NoAttrs>(), {f.unary(Unary::kIsNan, seen), f.b.f32_scalar(0), seen});
          return f.matmul(seen, k);
        },
        {"Attention"});
}

TEST(FuseAttention, ScaleBelowTheTurnedKeys) {
  check_fused({2, 5, 24},
              [](Forms& f, ValueId x) {
                const ValueId q = f.mul(heads(f, x, {0, 2, 1, 3}), 0.6);
                const ValueId k = f.transpose(f.mul(f.reshape(x, {0, -1, 3, 8}), 0.6), {0, 2, 3, 1});
                return join(f, f.matmul(f.softmax(f.matmul(q, k)), heads(f, x, {0, 2, 1, 3})));
              },
              {"Attention"});
}

TEST(FuseAttention, KeysTurnedInThreeDimensions) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  check_fused(kRowsOf24,
              [&](Forms& f, ValueId x) {
                const ValueId q = heads(f, x, swap);
                const ValueId k = f.reshape(f.transpose(f.reshape(q, {-1, 5, 8}), {0, 2, 1}), {2, 3, 8, 5});
                return join(f, f.matmul(f.softmax(f.matmul(q, k)), q));
              },
              {"Attention"});
}

/// Causal attention of one head whose scores a Where replaces by `lowest`; it reads where they are seen, or hidden.
ValueId where_hidden(Forms& f, ValueId x, bool seen, double lowest) {
  const ValueId q = heads(f, x, {0, 2, 1, 3});
  const ValueId scores = f.mul(f.matmul(q, f.transpose(q, {0, 1, 3, 2})), 0.25);
  const ValueId row = f.b.constant("", test::tensor(DType::kI64, {5, 1}, {0, 1, 2, 3, 4}));
  const ValueId key = f.b.constant("", test::tensor(DType::kI64, {1, 5}, {0, 1, 2, 3, 4}));
  const ValueId number = f.b.f32_scalar(static_cast<float>(lowest));
  // A sum with what the run gives keeps the condition from being folded.
  CastAttrs whole;
  whole.to = DType::kI64;
  const ValueId zeros = f.op(Op::kCast, make_attrs<CastAttrs>(whole), {f.mul(f.reshape(x, {-1, 1}), 0.0)});
  GatherAttrs first;
  const ValueId zero = f.op(Op::kGather, make_attrs<GatherAttrs>(first), {zeros, f.b.i64_scalar(0)});
  const ValueId at = f.binary(Binary::kAdd, row, zero);
  const ValueId condition = f.binary(seen ? Binary::kLessEqual : Binary::kGreater, key, at);
  const std::vector<ValueId> in =
      seen ? std::vector{condition, scores, number} : std::vector{condition, number, scores};
  return join(f, f.matmul(f.softmax(f.op(Op::kWhere, make_attrs<NoAttrs>(), in)), q));
}

TEST(FuseAttention, ScoresThatAWhereHides) {
  for (const bool seen : {false, true}) {
    const std::vector<std::string> expected{"Binary", "Cast", "Gather", "Binary", "Binary", "Where", "Attention"};
    check_fused(
        kRowsOf24, [&](Forms& f, ValueId x) { return where_hidden(f, x, seen, -1e9); }, expected);
    check_fused(
        kRowsOf24, [&](Forms& f, ValueId x) { return where_hidden(f, x, seen, -HUGE_VAL); }, expected);
  }
  // -2 beside a score is something.
  check_fused(kRowsOf24, [&](Forms& f, ValueId x) { return where_hidden(f, x, false, -2); },
              {"MatMul", "Binary", "Cast", "Gather", "Binary", "Binary", "Where", "Softmax", "MatMul"});
}

TEST(FuseAttention, WindowsThatSplitTheBatchStay) {
  check_fused(  // [2, 6, 24] as 6 windows of 2 rows: the batch of the heads is not that of x
      {2, 6, 24},
      [](Forms& f, ValueId x) {
        const ValueId q = f.transpose(f.reshape(x, {6, 2, 3, 8}), {0, 2, 1, 3});
        const ValueId y = f.matmul(f.softmax(f.matmul(q, f.transpose(q, {0, 1, 3, 2}))), q);
        return f.reshape(f.transpose(y, {0, 2, 1, 3}), {2, 6, 24});
      },
      {"Attention"});
}

/// Attention of 3 heads of queries over copies of one of keys and values; `beside`: the copies of a head are
/// neighbours.
ValueId shared_heads(Forms& f, ValueId x, bool beside) {
  const ValueId q = heads(f, x, {0, 2, 1, 3});
  const ValueId one = f.reshape(f.mul(f.reshape(x, {2, 5, 3, 8}), 0.5), {2, 3, 5, 8});  // 3 heads of 5 rows
  const auto copies = [&](ValueId v) {
    const ValueId apart = beside ? f.reshape(v, {2, 3, 1, 5, 8}) : f.reshape(v, {2, 1, 3, 5, 8});
    const ValueId to = beside ? f.b.i64({2, 3, 2, 5, 8}) : f.b.i64({2, 2, 3, 5, 8});
    return f.reshape(f.op(Op::kExpand, make_attrs<NoAttrs>(), {apart, to}), {2, 6, 5, 8});
  };
  const ValueId queries = f.op(Op::kConcat, make_attrs<AxisAttrs>(1), {q, f.mul(q, 2.0)});  // 6 heads
  const ValueId scores = f.matmul(queries, f.transpose(copies(one), {0, 1, 3, 2}));
  return f.matmul(f.softmax(scores), copies(f.add(one, 1)));
}

TEST(FuseAttention, HeadsOfQueriesShareKeys) {
  const auto form = [](bool beside) { return [beside](Forms& f, ValueId x) { return shared_heads(f, x, beside); }; };
  check_fused(kRowsOf24, form(true), {"Binary", "Binary", "Concat", "Binary", "Attention"});
  // Copies of all heads one after another are other heads: they are made.
  check_fused(kRowsOf24, form(false), {"Binary", "Binary", "Concat", "Expand", "Binary", "Expand", "Attention"});
}

TEST(FuseAttention, OthersStay) {
  const std::vector<int64_t> swap{0, 2, 1, 3};
  check_fused(  // one batch of keys for all queries
      kRowsOf24,
      [&](Forms& f, ValueId x) {
        const ValueId k = f.weights({1, 3, 5, 8});
        return f.matmul(f.softmax(f.matmul(heads(f, x, swap), f.transpose(k, {0, 1, 3, 2}))), k);
      },
      {"MatMul", "Softmax", "MatMul"});
  check_fused(  // a mask that makes the scores larger
      {1, 5, 24},
      [&](Forms& f, ValueId x) {
        const ValueId q = heads(f, x, swap), scores = f.matmul(q, f.transpose(q, {0, 1, 3, 2}));
        return f.matmul(f.softmax(f.binary(Binary::kAdd, scores, f.weights({4, 1, 5, 5}))), q);
      },
      {"MatMul", "Binary", "Softmax", "MatMul"});
  check_fused(  // the probabilities have another reader
      kRowsOf24,
      [&](Forms& f, ValueId x) {
        const ValueId q = heads(f, x, swap);
        const ValueId seen = f.softmax(f.matmul(q, f.transpose(q, {0, 1, 3, 2})));
        return f.matmul(seen, f.matmul(seen, q));
      },
      {"MatMul", "Softmax", "MatMul", "MatMul"});
}

}  // namespace
}  // namespace smelt
