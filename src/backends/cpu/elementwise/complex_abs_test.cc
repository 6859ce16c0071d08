#include <limits>

#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ComplexAbs, SizesAndSpecialValues) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x(DType::kC64, {3, 13});
  auto* parts = static_cast<float*>(x.raw());
  const Tensor values = random_tensor(DType::kF32, {78}, -4, 4, 1);
  std::copy_n(values.data<float>(), 78, parts);
  const float special[] = {1e30f, -1e30f, 1e-30f, 2e-30f, inf, nan, nan, -inf, nan, 1, 0, -0.0f};
  std::copy_n(special, 12, parts);
  OpCase c{"complex", Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), {x}};
  c.outputs[0].dtype = DType::kF32;
  check_on_cpu(c, "complex_abs", {0, 1e-6});
}

}  // namespace
}  // namespace smelt
