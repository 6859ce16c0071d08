#include <limits>

#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr Unary kMapped[] = {Unary::kAbs, Unary::kNeg, Unary::kSign};

template <class T>
void check_values(DType type, std::vector<T> values) {
  for (int i = 0; i < 100; ++i) values.push_back(static_cast<T>(i - 50));
  for (const Unary fn : kMapped) {
    OpCase c{Cat(to_string(fn), ' ', to_string(type)),
             Op::kUnary,
             make_attrs<UnaryAttrs>(fn),
             {Tensor::from<T>(type, {static_cast<int64_t>(values.size())}, values)}};
    check_on_cpu(c, "unary_unquantized");
  }
}

TEST(UnaryUnquantized, FunctionsAndTypes) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  check_values<int32_t>(DType::kI32, {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()});
  check_values<int64_t>(DType::kI64, {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()});
  check_values<double>(DType::kF64, {0.0, -0.0, inf, -inf, nan, 1e-300, -1e-300});
}

TEST(UnaryUnquantized, ManyOnThreads) {
  OpCase c{"neg", Op::kUnary, make_attrs<UnaryAttrs>(Unary::kNeg), {random_tensor(DType::kI64, {300, 331}, -9, 9, 1)}};
  c.threaded = true;
  check_on_cpu(c, "unary_unquantized");
}

}  // namespace
}  // namespace smelt
