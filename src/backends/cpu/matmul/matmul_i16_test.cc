#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(MatMulI16, TranspositionsAndBias) {
  for (const int variant : {0, 1, 2, 3, 4, 5, 6, 7}) {
    const bool transposed = variant & 1, bias = variant & 2, single = variant & 4;
    auto attrs = std::make_shared<MatMulAttrs>();
    attrs->transpose_b = transposed;
    attrs->rounding = single ? Rounding::kDoubleHalfAway : Rounding::kFixedDouble;
    attrs->act.kind = bias ? ActKind::kRelu : ActKind::kNone;
    Tensor w = random_tensor(DType::kI8, transposed ? Shape{19, 37} : Shape{37, 19}, -127, 127, 2);
    std::vector<float> scales;
    for (int64_t o = 0; o < 19; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
    w.set_quant(per_axis(scales, transposed ? 0 : 1));
    OpCase c{Cat("transposed ", transposed, " bias ", bias, " single rounding ", single),
             Op::kMatMul,
             attrs,
             {random_quantized(DType::kI16, {23, 37}, 3e-4f, 0, 1), w},
             {1, 2}};
    if (bias) c.inputs.push_back(random_tensor(DType::kI64, {19}, -5000000, 5000000, 3));
    c.outputs[0].dtype = DType::kI16;
    c.outputs[0].quant = per_tensor(9e-4f, 0, Rounding::kFixedDouble);
    c.threaded = true;
    check_on_cpu(c, "matmul_i16");
  }
}

/// 2000 products with weights of up to 127 need more than 32 bits.
TEST(MatMulI16, DeepProducts) {
  MatMulAttrs a;
  a.transpose_b = true;
  a.rounding = Rounding::kDoubleHalfAway;
  OpCase c{
      "deep",
      Op::kMatMul,
      make_attrs<MatMulAttrs>(a),
      {random_quantized(DType::kI16, {3, 2001}, 3e-4f, 0, 1), random_quantized(DType::kI8, {21, 2001}, 0.01f, 0, 2)},
      {1}};
  c.outputs[0].dtype = DType::kI16;
  c.outputs[0].quant = per_tensor(4e-3f, 0, Rounding::kFixedDouble);
  c.threaded = true;
  check_on_cpu(c, "matmul_i16");
}

}  // namespace
}  // namespace smelt
