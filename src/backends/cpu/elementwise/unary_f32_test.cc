#include <cmath>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(UnaryF32, AllFunctions) {
  for (int i = 0; i < static_cast<int>(Unary::kCount); ++i) {
    const auto fn = static_cast<Unary>(i);
    double a = 0.3, b = 0.7;
    if (fn == Unary::kClamp) a = -0.4;
    if (fn == Unary::kSilu || fn == Unary::kQuickGelu) a = 1.702;
    for (double range : {0.01, 1.0, 8.0, 110.0}) {
      const bool positive = fn == Unary::kSqrt || fn == Unary::kRsqrt || fn == Unary::kLog;
      if (fn == Unary::kNot || fn == Unary::kBitNot || fn >= Unary::kIsNan) continue;
      OpCase c{Cat(to_string(fn), " to ", range),
               Op::kUnary,
               make_attrs<UnaryAttrs>(fn, a, b),
               {random_tensor(DType::kF32, {3, 7, 53}, positive ? 0.001 * range : -range, range, 5)}};
      check_on_cpu(c, "", {fn == Unary::kGelu ? 1e-6 : 1e-7, 3e-6});
    }
  }
}

TEST(UnaryF32, SpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {0.0f, -0.0f, inf, -inf, nan, 1e-30f, -1e-30f, 88.0f, -103.0f, 3e38f, -3e38f, 5.0f};
  for (Unary fn : {Unary::kExp,  Unary::kSigmoid, Unary::kTanh,  Unary::kErf,        Unary::kRelu,     Unary::kRelu6,
                   Unary::kAbs,  Unary::kSqrt,    Unary::kLog,   Unary::kElu,        Unary::kSoftplus, Unary::kMish,
                   Unary::kSin,  Unary::kCos,     Unary::kSign,  Unary::kLogSigmoid, Unary::kRound,    Unary::kTrunc,
                   Unary::kAsin, Unary::kAtan,    Unary::kShrink}) {
    Tensor t = Tensor::from<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x);
    OpCase c{to_string(fn), Op::kUnary, make_attrs<UnaryAttrs>(fn), {t}};
    check_on_cpu(c, "unary_f32", {1e-30, 3e-6});
  }
}

TEST(UnaryF32, GeluFarFromZero) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f, -0.0f, inf, nan, 1e-30f, -1e-30f, 3e38f, -3e38f, -1e5f, -20.0f};
  for (int i = 0; i < 3200; ++i) x.push_back(-8.0f + 0.005f * static_cast<float>(i));
  check_on_cpu({"gelu",
                Op::kUnary,
                make_attrs<UnaryAttrs>(Unary::kGelu),
                {Tensor::from<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x)}},
               "unary_f32", {1e-6, 3e-6});
}

// Subnormal results are zero on every level, all others what they are.
TEST(UnaryF32, ExponentialsAreNormalOrZero) {
  std::vector<float> x;
  for (int i = 0; i < 2000; ++i) x.push_back(-110.0f + 0.0125f * static_cast<float>(i));
  for (const Unary fn : {Unary::kExp, Unary::kSigmoid}) {
    const OpCase c{to_string(fn),
                   Op::kUnary,
                   make_attrs<UnaryAttrs>(fn),
                   {Tensor::from<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x)}};
    for (const Isa isa : tested_isas()) {
      KernelRunner runner(c);
      const auto kernel = runner.make(*runner.choose(isa, PackCache::Mode::kPack), isa);
      ASSERT_TRUE(kernel);
      const auto made = runner.run(*kernel);
      ASSERT_TRUE(made.ok());
      for (size_t i = 0; i < x.size(); ++i) {
        const float y = made->front().data<float>()[i];
        EXPECT_TRUE(y == 0 || std::isnormal(y)) << to_string(isa) << ' ' << x[i] << ": " << y;
        EXPECT_EQ(y == 0, x[i] < -87.33654f) << to_string(isa) << ' ' << x[i];
      }
    }
  }
}

TEST(PowerF32, QuartersOfExponents) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.0f, -0.0f, inf, -inf, nan, 1.0f, -1.0f, -2.5f};
  for (int i = 0; i < 40; ++i) x.push_back(0.01f * static_cast<float>(i * i));
  for (float e : {0.0f, 0.25f, 0.5f, 0.75f, 1.0f, 1.5f, 2.0f, 2.75f, 3.0f, 4.0f, -0.5f, -0.75f, -1.0f, -3.0f}) {
    OpCase c{Cat("to the power ", e),
             Op::kBinary,
             make_attrs<BinaryAttrs>(Binary::kPow),
             {Tensor::from<float>(DType::kF32, {static_cast<int64_t>(x.size())}, x),
              Tensor::from<float>(DType::kF32, {}, std::vector<float>{e})},
             {1}};
    check_on_cpu(c, "power_f32", {1e-30, 1e-6});
  }
}

}  // namespace
}  // namespace smelt
