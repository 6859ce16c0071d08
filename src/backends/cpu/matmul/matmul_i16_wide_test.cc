#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

OpCase wide_case(DType type, bool transpose_a, bool transpose_b, const Shape& a, const Shape& b) {
  MatMulAttrs attrs;
  attrs.transpose_a = transpose_a;
  attrs.transpose_b = transpose_b;
  attrs.rounding = Rounding::kFixedDouble;
  OpCase c{Cat(to_string(type), transpose_a, transpose_b, a.str()),
           Op::kMatMul,
           make_attrs<MatMulAttrs>(attrs),
           {random_quantized(DType::kI16, a, 3e-4f, 0, 1), random_quantized(type, b, 2e-4f, 0, 2)}};
  c.outputs[0].dtype = DType::kI16;
  c.outputs[0].quant = per_tensor(type == DType::kI16 ? 8e-4f : 1e-6f, 0, Rounding::kFixedDouble);
  c.threaded = true;
  return c;
}

TEST(MatMulI16Wide, BatchesAndTranspositions) {
  for (const DType type : {DType::kI16, DType::kI8})
    for (const bool transpose_a : {false, true})
      for (const bool transpose_b : {false, true}) {
        const Shape a = transpose_a ? Shape{2, 3, 21, 17} : Shape{2, 3, 17, 21};
        const Shape b = transpose_b ? Shape{3, 37, 21} : Shape{3, 21, 37};
        check_on_cpu(wide_case(type, transpose_a, transpose_b, a, b), "matmul_i16_wide");
      }
  check_on_cpu(wide_case(DType::kI16, false, true, {1, 5}, {16, 5}), "matmul_i16_wide");
}

/// 32 bits would overflow: 300 products of -32768 by itself.
TEST(MatMulI16Wide, AccumulatorsHaveMoreThan32Bits) {
  OpCase c = wide_case(DType::kI16, false, true, {2, 300}, {3, 300});
  for (Tensor& t : c.inputs) std::fill_n(t.data<int16_t>(), t.elements(), int16_t{-32768});
  c.outputs[0].quant = per_tensor(1e-3f, 0, Rounding::kFixedDouble);
  check_on_cpu(c, "matmul_i16_wide");
}

}  // namespace
}  // namespace smelt
