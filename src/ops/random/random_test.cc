#include "ops/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/op_runner.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(Random, BoundsMomentsAndSeeds) {
  RandomAttrs a;
  a.a = -2;
  a.b = 3;
  a.seeded = true;
  a.seed = 7;
  const Tensor shape = tensor(DType::kI64, {1}, {20000});
  const auto draw = [&] { return values(OpRunner(Op::kRandom, make_attrs<RandomAttrs>(a)).input(shape).run()); };
  const auto mean = [](const std::vector<double>& v) {
    double sum = 0;
    for (double x : v) sum += x;
    return sum / static_cast<double>(v.size());
  };
  auto v = draw();
  EXPECT_EQ(v, draw());
  for (double x : v) EXPECT_TRUE(x >= -2 && x < 3);
  EXPECT_NEAR(mean(v), 0.5, 0.05);
  a.to = DType::kI32;
  for (double x : draw()) EXPECT_TRUE(x >= -2 && x < 3 && x == std::floor(x));
  a.to = DType::kF32;
  a.kind = RandomAttrs::Kind::kNormal;
  v = draw();
  EXPECT_NEAR(mean(v), -2, 0.1);
  double variance = 0;
  for (double x : v) variance += (x + 2) * (x + 2) / static_cast<double>(v.size());
  EXPECT_NEAR(variance, 9, 0.5);
  a.kind = RandomAttrs::Kind::kPermutation;
  a.to = DType::kI64;
  v = draw();
  std::sort(v.begin(), v.end());
  EXPECT_EQ(v.front(), 0);
  EXPECT_EQ(v[12345], 12345);
}

TEST(Random, Bernoulli) {
  RandomAttrs a;
  a.kind = RandomAttrs::Kind::kBernoulli;
  expect_equal(OpRunner(Op::kRandom, make_attrs<RandomAttrs>(a)).input(floats({4}, {0, 1, 0, 1})).run(), {0, 1, 0, 1});
}

}  // namespace
}  // namespace smelt
