// Lowered ATen calls on both back-ends, against results worked out by hand or by the operator's definition.
#include "formats/executorch/aten/aten.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/aten_call.h"

namespace smelt::aten {
namespace {

Tensor floats(const Shape& shape, const std::vector<float>& v) { return Tensor::from<float>(DType::kF32, shape, v); }
Tensor longs(const Shape& shape, const std::vector<int64_t>& v) { return Tensor::from<int64_t>(DType::kI64, shape, v); }
Tensor bytes(const Shape& shape, const std::vector<int8_t>& v) { return Tensor::from<int8_t>(DType::kI8, shape, v); }

const ValueType kReal = ValueType::tensor(DType::kF32), kWhole = ValueType::tensor(DType::kI64);

TEST(Aten, UnknownOperatorsAreNamed) {
  const auto got = AtenCall("aten::nonsense", {floats({1}, {1})}, {kReal}).run(BackendKind::kReference);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(got.error().message().find("aten::nonsense.out"), std::string::npos) << got.error().message();
}

// The order of PyTorch's selection and of ExecuTorch's, which is not that of the indices.
TEST(Aten, TopKLeavesTiesWherePyTorchDoes) {
  const auto got =
      AtenCall("aten::topk",
               {bytes({6, 4}, {1, -1, -2, 1, 1, 1, -4, -4, 3, 3, 1, 3, -4, 1, 1, -1, 1, 3, 1, -3, 4, 1, -4, -3}),
                Arg::integer(3), Arg::integer(-1), Arg::boolean(true), Arg::boolean(true)},
               {ValueType::tensor(DType::kI8), kWhole})
          .numbers();
  ASSERT_EQ(got.size(), 2u);
  expect(got[1], {0, 3, 1, 1, 0, 3, 1, 3, 0, 1, 2, 3, 1, 2, 0, 0, 1, 3});
}

TEST(Aten, AntialiasedCornersAreHalfPixels) {
  const auto resized = [](int64_t h, int64_t w) {
    return AtenCall("aten::_upsample_bilinear2d_aa",
                    {floats({1, 1, 1, 4}, {0, 3, 6, 12}), Arg::int_list({{h}, {w}}), Arg::boolean(true), Arg::none(),
                     Arg::none()},
                    {kReal})
        .numbers()
        .at(0);
  };
  // One column stands at the first pixel's corner; two are steps of 3 apart.
  expect(resized(1, 1), {0});
  const auto weighted = [](double center) {
    double sum = 0, total = 0;
    const double x[] = {0, 3, 6, 12};
    for (int i = 0; i < 4; ++i) {
      const double w = std::max(0.0, 1 - std::fabs(i + 0.5 - center) / 3);
      sum += w * x[i];
      total += w;
    }
    return sum / total;
  };
  expect(resized(1, 2), {weighted(1.5), weighted(4.5)});
}

TEST(Aten, CachesTakeRowsAndResultsArePlaceholders) {
  const Tensor fresh = floats({1, 1, 1, 2}, {7, 8}), cache = floats({1, 3, 1, 2}, {0, 0, 0, 0, 0, 0});
  // The result has the shape that the program declares; nobody reads it.
  const auto got =
      AtenCall("llama::update_cache", {fresh, cache, Arg::integer(1)}, {ValueType::tensor(DType::kF32, {1})}).numbers();
  ASSERT_EQ(got.size(), 2u);
  expect(got[0], {0});
  expect(got[1], {0, 0, 7, 8, 0, 0});
  const auto gathered =
      AtenCall("llama::update_cache_with_indices", {fresh, cache, Arg::integer(0), longs({1, 1}, {2})},
               {ValueType::tensor(DType::kF32, {1})})
          .numbers();
  ASSERT_EQ(gathered.size(), 2u);
  expect(gathered[1], {0, 0, 0, 0, 7, 8});
}

TEST(Aten, AttentionWithCacheSeesWhatIsThere) {
  const Tensor q = floats({1, 1, 1, 2}, {1, 2}), k = floats({1, 1, 1, 2}, {0.5, -1}), v = floats({1, 1, 1, 2}, {3, 4});
  const Tensor keys = floats({1, 3, 1, 2}, {1, 1, 9, 9, 9, 9}), values = floats({1, 3, 1, 2}, {-2, 5, 9, 9, 9, 9});
  const auto got = AtenCall("llama::sdpa_with_kv_cache",
                            {q, k, v, keys, values, Arg::integer(1), Arg::integer(1), Arg::none(), Arg::real(0),
                             Arg::boolean(true), Arg::none()},
                            {kReal})
                       .numbers();
  ASSERT_EQ(got.size(), 3u);
  const double a = std::exp(3 / std::sqrt(2.0)), b = std::exp(-1.5 / std::sqrt(2.0));
  expect(got[0], {(a * -2 + b * 3) / (a + b), (a * 5 + b * 4) / (a + b)});
  expect(got[1], {1, 1, 0.5, -1, 9, 9});
  expect(got[2], {-2, 5, 3, 4, 9, 9});
}

TEST(Aten, QuantizedAttentionIsThatOfWhatItsIntegersMean) {
  const Tensor q = bytes({1, 1, 1, 2}, {12, -6}), k = bytes({1, 2, 1, 2}, {3, 4, -5, 6}),
               v = bytes({1, 2, 1, 2}, {1, 2, 3, 4});
  const Tensor zero = Tensor::from<int8_t>(DType::kI8, {1, 1, 1, 1}, std::vector<int8_t>{2}),
               scale = floats({1, 1, 1, 1}, {0.25});
  const Tensor zeros = Tensor::from<int8_t>(DType::kI8, {1, 2, 1, 1}, std::vector<int8_t>{1, -1}),
               scales = floats({1, 2, 1, 1}, {0.5, 0.25});
  const auto got = AtenCall("llama::custom_quantized_sdpa",
                            {q, k, v, Arg::integer(1), Arg::none(), Arg::real(0), Arg::boolean(false), Arg::none(),
                             zero, scale, zeros, scales, zeros, scales, Arg::boolean(false)},
                            {kReal})
                       .numbers();
  ASSERT_EQ(got.size(), 1u);
  // q = (2.5, -2); keys (1, 1.5), (-1, 1.75); values (0, 0.5), (1, 1.25).
  const double a = std::exp(-0.5 / std::sqrt(2.0)), b = std::exp(-6 / std::sqrt(2.0));
  expect(got[0], {b / (a + b), (0.5 * a + 1.25 * b) / (a + b)});
}

TEST(Aten, GatedDeltaRulesDecayAndCorrectTheState) {
  // One head, keys and values of two channels, two tokens.
  const std::vector<float> q{1, 0.5f, -1, 2}, k{0.6f, 0.8f, 1, 0}, v{2, -1, 0.5f, 3}, beta{0.5f, 1}, g{-0.1f, -0.7f};
  double state[2][2] = {{1, 0}, {0, 1}};
  std::vector<double> want;
  for (int t = 0; t < 2; ++t) {
    const double* const rows[] = {state[0], state[1]};
    double read[2] = {0, 0};
    for (auto& row : state)
      for (double& s : row) s *= std::exp(static_cast<double>(g[static_cast<size_t>(t)]));
    for (int j = 0; j < 2; ++j)
      for (int i = 0; i < 2; ++i) read[j] += rows[i][j] * k[static_cast<size_t>(2 * t + i)];
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j)
        state[i][j] += k[static_cast<size_t>(2 * t + i)] * beta[static_cast<size_t>(t)] *
                       (v[static_cast<size_t>(2 * t + j)] - read[j]);
    for (int j = 0; j < 2; ++j)
      want.push_back(q[static_cast<size_t>(2 * t)] * state[0][j] + q[static_cast<size_t>(2 * t + 1)] * state[1][j]);
  }
  const std::vector<double> left{state[0][0], state[0][1], state[1][0], state[1][1]};
  const Shape tokens{1, 1, 2, 2};
  const Tensor start = floats({1, 1, 2, 2}, {1, 0, 0, 1});
  const auto recurrent = AtenCall("llama::recurrent_gated_delta_rule",
                                  {floats(tokens, q), floats(tokens, k), floats(tokens, v), floats({1, 1, 2}, g),
                                   floats({1, 1, 2}, beta), start},
                                  {kReal})
                             .numbers();
  ASSERT_EQ(recurrent.size(), 2u);
  expect(recurrent[0], want);
  expect(recurrent[1], left);
  std::vector<float> factors;
  for (float x : g) factors.insert(factors.end(), 2, std::exp(x));
  const auto channels = AtenCall("llama::channelwise_gated_delta_rule",
                                 {floats(tokens, q), floats(tokens, k), floats(tokens, v), floats(tokens, factors),
                                  floats({1, 1, 2}, beta), start},
                                 {kReal, kReal})
                            .numbers();
  ASSERT_EQ(channels.size(), 2u);
  expect(channels[0], want);
  expect(channels[1], left);
}

TEST(Aten, HadamardTransformOfFour) {
  const auto got = AtenCall("llama::fast_hadamard_transform", {floats({1, 4}, {1, 2, 3, 4})}, {kReal}).numbers();
  ASSERT_EQ(got.size(), 1u);
  expect(got[0], {5, -1, -2, 0});
}

TEST(Aten, PackedEmbeddingsGatherRowsOfNibbles) {
  // Rows of four values moved by 8, high nibble first, two groups of scales a row.
  const Tensor packed = Tensor::from<uint8_t>(DType::kU8, {2, 2}, std::vector<uint8_t>{0x98, 0x7a, 0x80, 0xf1});
  const auto got = AtenCall("quantized_decomposed::embedding_4bit",
                            {packed, floats({2, 2}, {1, 2, 10, 100}), Arg::none(), Arg::integer(-8), Arg::integer(7),
                             longs({2}, {1, 0})},
                            {kReal})
                       .numbers();
  ASSERT_EQ(got.size(), 1u);
  expect(got[0], {0, -80, 700, -700, 1, 0, -2, 4});
}

TEST(Aten, TilesOfAnImage) {
  std::vector<float> x(16);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const auto got = AtenCall("preprocess::tile_crop", {floats({1, 4, 4}, x), Arg::integer(2)}, {kReal}).numbers();
  ASSERT_EQ(got.size(), 1u);
  expect(got[0], {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15});
}

}  // namespace
}  // namespace smelt::aten
