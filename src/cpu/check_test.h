// For tests: compares kernels of the list with the reference kernel.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "cpu/testing.h"
#include "tensor/numeric.h"
#include "tests/support/coverage.h"

namespace smelt::testing {

struct Tolerance {
  double absolute = 1e-5, relative = 1e-5;
};

/// Runs every kernel of the list that applies to the case, on every level of this machine and with one and three
/// threads. Integer outputs must be equal, others within the tolerance. `want` names a kernel that must apply.
inline void check_case(const KernelCase& c, const std::string& want = "", Tolerance tolerance = {}) {
  SCOPED_TRACE(c.label);
  CaseRunner runner(c);
  ASSERT_TRUE(runner.shape_error().ok()) << runner.shape_error().error().message();
  const auto expected = runner.reference();
  ASSERT_TRUE(expected.ok()) << expected.error().message();
  if (!expected->defined()) GTEST_SKIP() << "no reference kernel for " << to_string(c.op);
  bool wanted = want.empty();
  for (const KernelInfo& info : all_kernels())
    for (int level = 0; level <= static_cast<int>(best_isa()); ++level)
      for (int threads : {1, 3}) {
        if (threads > 1 && (!c.threaded || level < static_cast<int>(best_isa()))) continue;
        const auto isa = static_cast<Isa>(level);
        const auto kernel = runner.make(info, isa, threads);
        if (!kernel) continue;
        SCOPED_TRACE(std::string(info.name) + " " + to_string(isa) + " threads " + std::to_string(threads));
        wanted = wanted || want == info.name;
        const auto got = runner.run(*kernel, threads);
        ASSERT_TRUE(got.ok()) << got.error().message();
        ASSERT_EQ(got->shape().str(), expected->shape().str());
        ASSERT_EQ(got->dtype(), expected->dtype());
        test::note_compared(info.name);
        if (expected->quant() && expected->quant()->kind == Quantization::Kind::kDynamicRow) {
          ASSERT_TRUE(got->quant());
          ASSERT_EQ(got->quant()->scales, expected->quant()->scales);
          ASSERT_EQ(got->quant()->zero_points, expected->quant()->zero_points);
        }
        if (!is_float(got->dtype())) {
          for (int64_t i = 0; i < got->elements(); ++i)
            ASSERT_EQ(get_int(*got, i), get_int(*expected, i)) << "element " << i;
          continue;
        }
        for (int64_t i = 0; i < got->elements(); ++i) {
          const double a = get_double(*got, i), b = get_double(*expected, i);
          if (std::isnan(a) && std::isnan(b)) continue;
          if (a == b) continue;
          ASSERT_LE(std::fabs(a - b), tolerance.absolute + tolerance.relative * std::fabs(b))
              << "element " << i << ": " << a << ", " << b << " expected";
        }
      }
  EXPECT_TRUE(wanted) << "kernel " << want << " does not apply";
}

}  // namespace smelt::testing
