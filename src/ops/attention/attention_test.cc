#include "ops/attention/attention.h"

#include <limits>
#include <vector>

#include "support/op_runner.h"

namespace smelt::test {
namespace {

OpRunner attention(const AttentionAttrs& a) { return OpRunner(Op::kAttention, make_attrs<AttentionAttrs>(a)); }

/// One head of depth 1: with k = 0 every visible key has the same weight, so y is the mean of the visible values.
Tensor means(const AttentionAttrs& a, int64_t queries, const std::vector<double>& v) {
  const auto n = static_cast<int64_t>(v.size());
  return attention(a)
      .input(floats({1, 1, queries, 1}, std::vector<double>(static_cast<size_t>(queries), 1)))
      .input(floats({1, 1, n, 1}, std::vector<double>(v.size(), 0)))
      .input(floats({1, 1, n, 1}, v))
      .run();
}

TEST(Attention, VisibilityOfKeys) {
  AttentionAttrs a;
  const std::vector<double> v = {3, 6, 9, 12};
  expect_near(means(a, 1, v), {7.5});
  a.causal = true;
  expect_near(means(a, 2, v), {3, 4.5});
  a.causal_from_end = true;
  expect_near(means(a, 2, v), {6, 7.5});
  a.window = 1;
  expect_near(means(a, 2, v), {7.5, 10.5});
  a.causal = false;
  a.window_right = 0;
  expect_near(means(a, 2, v), {7.5, 10.5});
  a.window_right = 1;
  expect_near(means(a, 2, v), {9, 10.5});
}

TEST(Attention, ScoresAreScaledCappedAndWeighted) {
  AttentionAttrs a;
  a.scale = 0.5;
  a.softcap = 1;
  const double hot = std::exp(std::tanh(1.0)), cold = std::exp(std::tanh(0.0));
  const Tensor y = attention(a)
                       .input(floats({1, 1, 1, 2}, {1, 1}))
                       .input(floats({1, 1, 2, 2}, {2, 0, 0, 0}))
                       .input(floats({1, 1, 2, 1}, {1, 0}))
                       .run();
  expect_near(y, {hot / (hot + cold)});
  a.smooth_softmax = true;
  const Tensor smooth = attention(a)
                            .input(floats({1, 1, 1, 2}, {1, 1}))
                            .input(floats({1, 1, 2, 2}, {2, 0, 0, 0}))
                            .input(floats({1, 1, 2, 1}, {1, 0}))
                            .run();
  expect_near(smooth, {hot / (hot + cold + 1)});
}

/// One more logit, ln 2, beside two of 0.
TEST(Attention, SinksTakeWeight) {
  const auto run = [](const Tensor& sinks) {
    return attention({})
        .input(floats({1, 1, 1, 1}, {1}))
        .input(floats({1, 1, 2, 1}, {0, 0}))
        .input(floats({1, 1, 2, 1}, {3, 6}))
        .absent()
        .absent()
        .absent()
        .absent()
        .input(sinks);
  };
  expect_near(run(floats({1}, {std::log(2.0)})).run(), {9.0 / 4});
  EXPECT_NE(run(floats({2}, {0, 0})).error().find("2 attention sinks for 1 heads"), std::string::npos);
}

TEST(Attention, MasksOfBothKinds) {
  const Tensor q = floats({1, 1, 1, 1}, {1}), k = floats({1, 1, 3, 1}, {0, 0, 0}), v = floats({1, 1, 3, 1}, {1, 2, 6});
  AttentionAttrs a;
  expect_near(attention(a).input(q).input(k).input(v).input(tensor(DType::kBool, {1, 3}, {1, 0, 1})).run(), {3.5});
  expect_near(attention(a).input(q).input(k).input(v).input(floats({3}, {0, -1e9, -1e9})).run(), {1});
  // A mask of fewer keys hides the rest; a row that sees nothing gives zeros.
  expect_near(attention(a).input(q).input(k).input(v).input(floats({1, 2}, {0, 0})).run(), {1.5});
  expect_near(attention(a).input(q).input(k).input(v).input(tensor(DType::kBool, {3}, {0, 0, 0})).run(), {0});
}

TEST(Attention, GroupedHeadsInFlatOperands) {
  AttentionAttrs a;
  a.num_heads = 4;
  a.kv_heads = 2;
  const Tensor y = attention(a)
                       .input(floats({1, 1, 4}, {1, 1, 1, 1}))
                       .input(floats({1, 2, 2}, {0, 0, 0, 0}))
                       .input(floats({1, 2, 2}, {1, 10, 3, 30}))
                       .run();
  EXPECT_EQ(y.shape(), (Shape{1, 1, 4}));
  expect_near(y, {2, 2, 20, 20});
}

TEST(Attention, PastKeysComeFirst) {
  AttentionAttrs a;
  auto r = attention(a)
               .input(floats({1, 1, 1, 1}, {1}))
               .input(floats({1, 1, 1, 1}, {0}))
               .input(floats({1, 1, 1, 1}, {5}))
               .absent()
               .input(floats({1, 1, 2, 1}, {0, 0}))
               .input(floats({1, 1, 2, 1}, {1, 3}))
               .outputs(4)
               .run_all();
  ASSERT_TRUE(r.ok()) << r.error().message();
  expect_near((*r)[0].tensor, {3});
  expect_near((*r)[1].tensor, {0, 0, 0});
  expect_near((*r)[2].tensor, {1, 3, 5});
  expect_near((*r)[3].tensor, {0, 0, 0});
}

TEST(Attention, LengthsOfKeys) {
  AttentionAttrs a;
  const Tensor y = attention(a)
                       .input(floats({2, 1, 1, 1}, {1, 1}))
                       .input(floats({2, 1, 3, 1}, {0, 0, 0, 0, 0, 0}))
                       .input(floats({2, 1, 3, 1}, {1, 2, 3, 4, 5, 6}))
                       .absent()
                       .absent()
                       .absent()
                       .input(tensor(DType::kI64, {2}, {2, 3}))
                       .run();
  expect_near(y, {1.5, 5});
}

TEST(Attention, RefusesOperandsThatDoNotFit) {
  AttentionAttrs a;
  const auto message = [&](const Shape& q, const Shape& k, const Shape& v) {
    return attention(a)
        .input(Tensor(DType::kF32, q))
        .input(Tensor(DType::kF32, k))
        .input(Tensor(DType::kF32, v))
        .error();
  };
  EXPECT_NE(message({1, 1, 1, 2}, {1, 1, 1, 3}, {1, 1, 1, 2}).find("depths"), std::string::npos);
  EXPECT_NE(message({1, 3, 1, 2}, {1, 2, 1, 2}, {1, 2, 1, 2}).find("heads"), std::string::npos);
  EXPECT_NE(message({1, 2}, {1, 2}, {1, 2}).find("rank"), std::string::npos);
}

TEST(Rotary, HalvesAndPairs) {
  RotaryAttrs a;
  const Tensor cos = floats({2, 2}, {1, 1, 0, -1}), sin = floats({2, 2}, {0, 0, 1, 0});
  const auto run = [&] {
    return OpRunner(Op::kRotary, make_attrs<RotaryAttrs>(a))
        .input(floats({1, 1, 1, 4}, {1, 2, 3, 4}))
        .constant(cos)
        .constant(sin)
        .input(tensor(DType::kI64, {1, 1}, {1}))
        .run();
  };
  expect_near(run(), {-3, -2, 1, -4});
  a.interleaved = true;
  expect_near(run(), {-2, 1, -3, -4});
  a.rotary_dim = 6;
  EXPECT_FALSE(OpRunner(Op::kRotary, make_attrs<RotaryAttrs>(a))
                   .input(floats({1, 1, 1, 4}, {1, 2, 3, 4}))
                   .constant(cos)
                   .constant(sin)
                   .error()
                   .empty());
}

TEST(KvAppend, WritesAndChecksItsPlace) {
  KvAppendAttrs a;
  const auto runner = [&](double start) {
    return OpRunner(Op::kKvAppend, make_attrs<KvAppendAttrs>(a))
        .input(floats({1, 3, 2}, {0, 1, 2, 3, 4, 5}))
        .input(floats({1, 2, 2}, {6, 7, 8, 9}))
        .input(tensor(DType::kI64, {}, {start}));
  };
  expect_equal(runner(1).run(), {0, 1, 6, 7, 8, 9});
  EXPECT_NE(runner(2).error().find("outside"), std::string::npos);
  EXPECT_NE(runner(-1).error().find("outside"), std::string::npos);
}

/// One head of depth 1, two rows: scores of both rows, weights of the visible keys.
TEST(GroupQueryAttention, ScoresAndBothDirections) {
  const auto run = [](bool causal, int64_t qk_output) {
    GroupQueryAttrs a;
    a.causal = causal;
    a.qk_output = qk_output;
    return OpRunner(Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(a))
        .input(floats({1, 2, 1}, {1, 2}))
        .input(floats({1, 2, 1}, {0.5, -1}))
        .input(floats({1, 2, 1}, {10, 20}))
        .absent()
        .absent()
        .input(Tensor::from<int32_t>(DType::kI32, {1}, std::vector<int32_t>{1}))
        .input(Tensor::from<int32_t>(DType::kI32, {}, std::vector<int32_t>{2}))
        .outputs(4)
        .run_all()
        .value();
  };
  const double first = std::exp(0.5) / (std::exp(0.5) + std::exp(-1.0)),
               second = std::exp(1.0) / (std::exp(1.0) + std::exp(-2.0));
  auto out = run(true, 1);
  expect_near(out[0].tensor, {10, 10 * second + 20 * (1 - second)});
  expect_near(out[3].tensor, {0.5, 0, 1, -2});
  EXPECT_EQ(out[3].tensor.shape(), (Shape{1, 1, 2, 2}));
  expect_near(run(true, 2)[3].tensor, {1, 0, second, 1 - second});
  out = run(false, 2);
  expect_near(out[0].tensor, {10 * first + 20 * (1 - first), 10 * second + 20 * (1 - second)});
  expect_near(out[3].tensor, {first, 1 - first, second, 1 - second});
}

TEST(GroupQueryAttention, RefusesLengthsBeyondTheCache) {
  for (const int64_t last : {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min(), int64_t{3}}) {
    const auto out = OpRunner(Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(GroupQueryAttrs()))
                         .input(floats({1, 2, 1}, {1, 1}))
                         .input(floats({1, 2, 1}, {1, 1}))
                         .input(floats({1, 2, 1}, {1, 1}))
                         .input(floats({1, 1, 3, 1}, {1, 1, 1}))
                         .input(floats({1, 1, 3, 1}, {1, 1, 1}))
                         .input(Tensor::from<int64_t>(DType::kI64, {1}, std::vector<int64_t>{last}))
                         .input(Tensor::from<int32_t>(DType::kI32, {}, std::vector<int32_t>{3}))
                         .outputs(3)
                         .run_all();
    ASSERT_FALSE(out.ok()) << last;
    EXPECT_NE(out.error().message().find("does not fit 2 rows"), std::string::npos) << out.error().message();
  }
}

/// Behind a window of 2 a cache of 3 rows keeps 2 or 3: two leave it at a time.
TEST(GroupQueryAttention, CacheOfAWindow) {
  GroupQueryAttrs a;
  a.window = 2;
  a.window_cache = true;
  for (const auto& [positions, kept] : {std::pair<int64_t, int64_t>{1, 1}, {3, 3}, {4, 2}, {5, 3}, {6, 2}, {7, 3}})
    EXPECT_EQ(a.rows_kept(3, positions), kept) << positions;
  // All keys are equal: a row is the mean of the two values that it sees.
  const auto step = [&](const Tensor& past, const std::vector<double>& values, int32_t last) {
    const auto n = static_cast<int64_t>(values.size());
    return OpRunner(Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(a))
        .input(floats({1, n, 1}, std::vector<double>(values.size(), 1)))
        .input(floats({1, n, 1}, std::vector<double>(values.size(), 0)))
        .input(floats({1, n, 1}, values))
        .input(floats({1, 1, 3, 1}, {0, 0, 0}))
        .input(past)
        .input(Tensor::from<int32_t>(DType::kI32, {1}, std::vector<int32_t>{last}))
        .input(Tensor::from<int32_t>(DType::kI32, {}, std::vector<int32_t>{last + 1}))
        .outputs(3)
        .run_all()
        .value();
  };
  auto out = step(floats({1, 1, 3, 1}, {0, 0, 0}), {10, 20, 30, 40, 50}, 4);
  expect_near(out[0].tensor, {10, 15, 25, 35, 45});
  expect_near(out[2].tensor, {30, 40, 50});
  out = step(out[2].tensor, {60}, 5);
  expect_near(out[0].tensor, {55});
  expect_near(out[2].tensor, {50, 60, 0});
  out = step(out[2].tensor, {70}, 6);
  expect_near(out[0].tensor, {65});
  expect_near(out[2].tensor, {50, 60, 70});
  const auto refused = OpRunner(Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(a))
                           .input(floats({1, 1, 1}, {1}))
                           .input(floats({1, 1, 1}, {1}))
                           .input(floats({1, 1, 1}, {1}))
                           .input(floats({1, 1, 1, 1}, {1}))
                           .input(floats({1, 1, 1, 1}, {1}))
                           .input(Tensor::from<int32_t>(DType::kI32, {1}, std::vector<int32_t>{1}))
                           .input(Tensor::from<int32_t>(DType::kI32, {}, std::vector<int32_t>{2}))
                           .outputs(3)
                           .run_all();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message().find("a cache of 1 rows for a window of 2"), std::string::npos);
}

}  // namespace
}  // namespace smelt::test
