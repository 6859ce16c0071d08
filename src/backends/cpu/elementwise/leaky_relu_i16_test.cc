#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(LeakyReluI16, Slopes) {
  for (const double slope : {0.1, 0.9, -0.3, 1.7})
    for (const float out : {0.011f, 0.004f, 0.25f}) {
      UnaryAttrs a(Unary::kLeakyRelu, slope);
      a.rounding = Rounding::kFixedDouble;
      OpCase c{Cat(slope, ' ', out),
               Op::kUnary,
               make_attrs<UnaryAttrs>(a),
               {random_quantized(DType::kI16, {7, 53}, 0.01f, 0, 1)}};
      c.outputs[0].dtype = DType::kI16;
      c.outputs[0].quant = per_tensor(out, 0, Rounding::kFixedDouble);
      check_on_cpu(c, "leaky_relu_i16");
    }
}

}  // namespace
}  // namespace smelt
