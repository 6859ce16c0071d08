#include "ops/signal/fft.h"

#include <gtest/gtest.h>

#include <cmath>

namespace smelt {
namespace {

TEST(Fft, AnyLengthAgreesWithTheSum) {
  for (size_t n : {1, 2, 3, 5, 8, 12, 17, 30, 64, 97}) {
    std::vector<std::complex<double>> x(n), y;
    for (size_t i = 0; i < n; ++i)
      x[i] = {std::sin(static_cast<double>(3 * i + 1)), std::cos(static_cast<double>(i * i))};
    y = x;
    fft(y, false);
    for (size_t k = 0; k < n; ++k) {
      std::complex<double> sum = 0;
      for (size_t i = 0; i < n; ++i)
        sum += x[i] * std::polar(1.0, -2 * M_PI * static_cast<double>(i * k % n) / static_cast<double>(n));
      EXPECT_LT(std::abs(sum - y[k]), 1e-10) << n;
    }
    fft(y, true);
    for (size_t i = 0; i < n; ++i) EXPECT_LT(std::abs(y[i] / static_cast<double>(n) - x[i]), 1e-12) << n;
  }
}

}  // namespace
}  // namespace smelt
