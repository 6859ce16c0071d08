// Sums of bytes by pairs of int16s: the numbers themselves, and every pair of bytes by each rule of arithmetic.
#include "backends/cpu/elementwise/byte_sum.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

int32_t dot(int32_t pair, int32_t u, int32_t v) { return static_cast<int16_t>(pair) * u + (pair >> 16) * v; }
int32_t before_shift(const ByteSum& s, int32_t u, int32_t v) {
  return dot(s.high, u, v) + s.high_constant + ((dot(s.low, u, v) + s.low_constant) >> ByteSum::kLowBits);
}

TEST(ByteSum, ExactIsTheFloor) {
  std::mt19937 random(1);
  const auto number = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(-most, most)(random); };
  for (int i = 0; i < 200; ++i) {
    const int bits = 15 + i % 16;
    const int64_t a = number(1 << 29), b = number(1 << 22), c = number(int64_t{1} << (20 + i % 20));
    const auto s = ByteSum::exact(a, b, c, bits);
    ASSERT_TRUE(s) << a << ' ' << b << ' ' << c;
    for (const int32_t u : {0, 1, 77, 128, 255})
      for (const int32_t v : {0, 2, 99, 255})
        EXPECT_EQ(before_shift(*s, u, v) >> s->shift, (a * u + b * v + c) >> bits) << a << ' ' << b << ' ' << c;
  }
  EXPECT_FALSE(ByteSum::exact(1, 1, 1, 14));
  EXPECT_FALSE(ByteSum::exact(int64_t{1} << 30, 1, 1, 20));
  EXPECT_FALSE(ByteSum::exact(1, 1, int64_t{1} << 46, 20));
}

TEST(ByteSum, NearGuessesWhereTheErrorMatters) {
  struct Factors {
    double a, b, c, error;
  };
  const Factors factors[] = {{0.73, 0.41, 11.3, 1e-4}, {1.9999, -1.3, 100, 2e-5},        {0.5, 0.25, 3.25, 0},
                             {1, 1, -120, 1e-4},       {17.3137, 90.1719, -20000, 1e-3}, {0.001, 1e-6, 0.5, 1e-5},
                             {243.9, 1.02, 3, 1e-4}};
  for (const auto& f : factors) {
    const auto s = ByteSum::near(f.a, f.b, f.c, f.error);
    ASSERT_TRUE(s) << f.a;
    int guesses = 0;
    for (int32_t u = 0; u < 256; ++u)
      for (int32_t v = 0; v < 256; ++v) {
        const int32_t t = before_shift(*s, u, v), y = t >> s->shift;
        const double real = f.a * u + f.b * v + f.c;
        const bool guess = (t & s->doubtful) == 0,
                   tells = std::floor(real + 0.5 - f.error) == y && std::floor(real + 0.5 + f.error) == y;
        guesses += guess;
        ASSERT_TRUE(guess || tells) << f.a << ' ' << u << ' ' << v;
      }
    const auto nearest = ByteSum::nearest(f.a, f.b, f.c);
    ASSERT_TRUE(nearest);
    EXPECT_EQ(nearest->doubtful, 0);
    for (const int32_t u : {0, 3, 200, 255})
      EXPECT_NEAR(before_shift(*nearest, u, 255 - u), std::ldexp(f.a * u + f.b * (255 - u) + f.c + 0.5, nearest->shift),
                  1.1);
    EXPECT_LE(guesses, f.error == 0 ? 65536 : 2000) << f.a;
  }
  EXPECT_FALSE(ByteSum::near(2000, 1, 0, 1e-5));
  EXPECT_FALSE(ByteSum::near(1, 1, 1e7, 1e-5));
  EXPECT_FALSE(ByteSum::near(1, 1, 0, 0.1));
  EXPECT_FALSE(ByteSum::near(std::nan(""), 1, 0, 1e-5));
}

TEST(ByteSum, LinesWithGuessesAreThoseOfEveryPair) {
  std::mt19937 random(3);
  const auto number = [&](double most) { return std::uniform_real_distribution<double>(-most, most)(random); };
  for (int i = 0; i < 300; ++i) {
    const double most = i % 3 == 0 ? 127 : i % 3 == 1 ? 2 : 0.1;
    const double a = i % 10 == 0 ? 0.5 : number(most), b = number(most), c = number(300);
    const auto s = ByteSum::near(a, b, c, std::ldexp(1.0, -8 - i % 16));
    if (!s) continue;
    std::vector<uint8_t> expected;
    for (int32_t u = 0; u < 256; ++u) {
      bool guess = false;
      for (int32_t v = 0; v < 256; ++v) guess |= (before_shift(*s, u, v) & s->doubtful) == 0;
      if (guess) expected.push_back(static_cast<uint8_t>(u));
    }
    EXPECT_EQ(lines_with_guesses(*s, least_numbers), expected) << a << ' ' << b << ' ' << c;
    // Without guesses both rules are the same: the floors differ by the margin alone.
    const auto nearest = ByteSum::nearest(a, b, c);
    ASSERT_TRUE(nearest);
    for (int32_t u = 0; u < 256; u += 5)
      for (int32_t v = 0; v < 256; ++v) {
        const int32_t t = before_shift(*s, u, v);
        ASSERT_TRUE((t & s->doubtful) == 0 || t >> s->shift == before_shift(*nearest, u, v) >> nearest->shift);
      }
  }
}

TEST(ByteSum, SameOfEveryPairLooksAtGuesses) {
  const auto near = ByteSum::near(0x1p-10, 1, 0.5 - 77 * 0x1p-10, 0);
  ASSERT_TRUE(near);
  ASSERT_EQ(lines_with_guesses(*near, least_numbers), std::vector<uint8_t>{77});
  const auto row = [](int line) {  // other bytes in one line, if any
    return [=](const uint8_t* u, const uint8_t* v, int64_t n, uint8_t* y) {
      for (int64_t i = 0; i < n; ++i) y[i] = static_cast<uint8_t>(v[i] + (u[i] == line && v[i] == 200));
    };
  };
  const auto same = [&](uint8_t flip, int line) {
    return same_of_every_pair(*near, least_numbers, flip, row(-1), row(line));
  };
  EXPECT_FALSE(same(0, 77));
  EXPECT_FALSE(same(128, 77 ^ 128));
  EXPECT_TRUE(same(0, 77 ^ 128));
  EXPECT_TRUE(same(128, 77));
  EXPECT_TRUE(same(0, 78));
}

/// The first byte of a pair counts lines of 256, the second one within a line; the last bytes fill no block.
Tensor every_pair(DType dtype, bool first, float scale, int32_t zero) {
  constexpr int64_t kBytes = 65536 + 37;
  Tensor t(dtype, Shape{kBytes});
  for (int64_t i = 0; i < kBytes; ++i) t.data<uint8_t>()[i] = static_cast<uint8_t>(first ? i >> 8 : i);
  t.set_quant(per_tensor(scale, zero));
  return t;
}

TEST(ByteSum, EveryPairByEveryRule) {
  struct Scales {
    float a, b, y;
  };
  // Ties, factors beyond 2, beyond 64 and beyond 128, small ones, and what networks have.
  const Scales scales[] = {{0.5f, 0.25f, 1.0f},      {0.0369906f, 0.0373337f, 0.0217026f},
                           {0.31f, 0.11f, 0.1f},     {1.0f, 0.9f, 0.011f},
                           {0.0041f, 1.0f, 0.0042f}, {0.003f, 0.05f, 0.7f}};
  for (const Scales& s : scales)
    for (const Binary fn : {Binary::kAdd, Binary::kSub})
      for (const DType dtype : {DType::kI8, DType::kU8})
        for (const auto& [rounding, kernel] : {std::pair{Rounding::kFloatHalfEven, "binary_i8"},
                                               {Rounding::kFixedDouble, "binary_fixed"},
                                               {Rounding::kXnnpack, "binary_xnnpack"}}) {
          BinaryAttrs attrs(fn);
          attrs.rounding = rounding;
          if (s.b == 0.11f) attrs.act.kind = ActKind::kRelu;
          const int32_t zero = dtype == DType::kI8 ? -8 : 118;
          check_on_cpu({Cat(to_string(fn), ' ', to_string(dtype), ' ', s.a, ' ', kernel),
                        Op::kBinary,
                        make_attrs<BinaryAttrs>(attrs),
                        {every_pair(dtype, true, s.a, zero), every_pair(dtype, false, s.b, zero + 3)},
                        {},
                        {ValueType::tensor(dtype, {}, per_tensor(s.y, zero - 7, rounding))}},
                       kernel);
        }
}

}  // namespace
}  // namespace smelt
