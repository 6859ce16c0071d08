#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(MatMulI8Dynamic, BatchesAndTranspositions) {
  for (const bool transpose_a : {false, true})
    for (const bool transpose_b : {false, true})
      for (const DType type : {DType::kI8, DType::kU8}) {
        MatMulAttrs a;
        a.transpose_a = transpose_a;
        a.transpose_b = transpose_b;
        a.rounding = Rounding::kFixedDouble;
        const int32_t zero = type == DType::kI8 ? 0 : 131;
        OpCase c{Cat(transpose_a, transpose_b, to_string(type)),
                 Op::kMatMul,
                 make_attrs<MatMulAttrs>(a),
                 {random_quantized(type, transpose_a ? Shape{2, 3, 21, 17} : Shape{2, 3, 17, 21}, 0.05f, zero + 3, 1),
                  random_quantized(type, transpose_b ? Shape{3, 37, 21} : Shape{3, 21, 37}, 0.04f, zero, 2)}};
        c.outputs[0].dtype = type;
        c.outputs[0].quant = per_tensor(1.5f, zero + 1, Rounding::kFixedDouble);
        check_on_cpu(c, "matmul_i8_dynamic");
      }
}

}  // namespace
}  // namespace smelt
