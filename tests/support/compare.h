// For tests: compares tensors.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tensor/numeric.h"
#include "tests/support/op_case.h"

namespace smelt::test {

inline void expect_near(const Tensor& got, const std::vector<double>& want, double atol = 1e-5, double rtol = 1e-5) {
  const auto v = values(got);
  ASSERT_EQ(v.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (want[i] != want[i]) {
      EXPECT_TRUE(v[i] != v[i]) << "element " << i << " is " << v[i] << ", NaN expected";
    } else if (v[i] != want[i]) {
      EXPECT_NEAR(v[i], want[i], atol + rtol * std::abs(want[i])) << "element " << i;
    }
  }
}
inline void expect_equal(const Tensor& got, const std::vector<double>& want) { EXPECT_EQ(values(got), want); }

/// Element types and shapes are equal, and so are integers and the quantization parameters of tokens; reals are near.
inline void expect_same(const Tensor& got, const Tensor& want, Tolerance tolerance = {}) {
  ASSERT_EQ(got.dtype(), want.dtype());
  ASSERT_EQ(got.shape(), want.shape());
  if (want.quant() && want.quant()->kind == Quantization::Kind::kPerToken) {
    ASSERT_TRUE(got.quant());
    ASSERT_EQ(got.quant()->scales, want.quant()->scales);
    ASSERT_EQ(got.quant()->zero_points, want.quant()->zero_points);
  }
  const bool real = is_float(want.dtype()) || is_complex(want.dtype());
  for (int64_t i = 0; i < want.elements(); ++i) {
    if (!real) {
      ASSERT_EQ(get_int(got, i), get_int(want, i)) << "element " << i;
      continue;
    }
    const double a = get_double(got, i), b = get_double(want, i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    ASSERT_LE(std::fabs(a - b), tolerance.absolute + tolerance.relative * std::fabs(b))
        << "element " << i << ": " << a << ", " << b << " expected";
  }
}

/// All outputs of an operator.
inline void expect_same(const std::vector<Datum>& got, const std::vector<Datum>& want, Tolerance tolerance = {}) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    SCOPED_TRACE("output " + std::to_string(i));
    expect_same(got[i].tensor, want[i].tensor, tolerance);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace smelt::test
