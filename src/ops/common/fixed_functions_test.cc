#include "ops/common/fixed_functions.h"

#include <gtest/gtest.h>

#include <cmath>

namespace smelt {
namespace {

double q0(int32_t raw) { return raw / 2147483648.0; }

TEST(FixedFunctions, FollowTheRealFunctions) {
  for (double x = 0.01; x < 15; x += 0.37) {
    const auto raw = static_cast<int32_t>(x * (1 << 26));
    EXPECT_NEAR(q0(fixed_exp_negative_q5(-raw)), std::exp(-x), 1e-6) << x;
    const auto q4 = static_cast<int32_t>(x * (1 << 27));
    EXPECT_NEAR(q0(fixed_logistic(q4, 4)), 1 / (1 + std::exp(-x)), 1e-6) << x;
    EXPECT_NEAR(q0(fixed_logistic(-q4, 4)), 1 / (1 + std::exp(x)), 1e-6) << x;
    EXPECT_NEAR(q0(fixed_tanh(-q4, 4)), -std::tanh(x), 1e-6) << x;
  }
  for (int x : {1, 2, 5, 100, 12345, 1 << 30}) {
    const FixedFactor f = fixed_inverse_sqrt(x);
    EXPECT_NEAR(std::ldexp(f.multiplier, f.shift - 31) * std::sqrt(x), 1, 1e-5) << x;
  }
  for (double x = 1; x < 2000; x *= 1.7)
    EXPECT_NEAR(fixed_log_q12(static_cast<int32_t>(x * (1 << 19))) / double{1 << 26}, std::log(x), 1e-5) << x;
  for (int x : {1 << 19, 3 << 18, 1000 << 19}) {
    int bits = 0;
    const int32_t r = fixed_reciprocal(x, 12, &bits);
    EXPECT_NEAR(std::ldexp(q0(r), -bits) * x / (1 << 19), 1, 1e-6) << x;
  }
}

}  // namespace
}  // namespace smelt
