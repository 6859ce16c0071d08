#include <array>

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

// Depths, widths and heights around the ends of groups, vectors and panels; zero points far from the middle.
TEST(MatMulI8Dynamic, Tails) {
  for (const auto& [m, k, n] : {std::array<int64_t, 3>{1, 1, 1}, {15, 64, 16}, {14, 67, 33}, {3, 130, 31}, {5, 4, 70}})
    for (const bool transpose_b : {false, true})
      for (const int32_t zero : {0, 7, 128, 255}) {
        MatMulAttrs a;
        a.transpose_b = transpose_b;
        OpCase c{Cat(m, 'x', k, 'x', n, ' ', transpose_b, ' ', zero),
                 Op::kMatMul,
                 make_attrs<MatMulAttrs>(a),
                 {random_quantized(DType::kU8, Shape{m, k}, 0.05f, 255 - zero, 1),
                  random_quantized(DType::kU8, transpose_b ? Shape{n, k} : Shape{k, n}, 0.04f, zero, 2)}};
        c.outputs[0].dtype = DType::kI8;
        c.outputs[0].quant = per_tensor(1.5f, -3);
        check_on_cpu(c, "matmul_i8_dynamic");
      }
}

// Zero points are operands: at the ends of the types, and left out.
TEST(MatMulIntegerDynamic, TypesAndZeroPoints) {
  for (const DType a : {DType::kI8, DType::kU8})
    for (const DType b : {DType::kI8, DType::kU8})
      for (const bool transpose_b : {false, true})
        for (const int64_t zero : {-1, 0, 55, 127}) {
          MatMulAttrs attrs;
          attrs.transpose_b = transpose_b;
          OpCase c{Cat(to_string(a), to_string(b), transpose_b, ' ', zero),
                   Op::kMatMulInteger,
                   make_attrs<MatMulAttrs>(attrs),
                   {random_tensor(a, {2, 3, 17, 21}, 0, 127, 1),
                    random_tensor(b, transpose_b ? Shape{2, 3, 37, 21} : Shape{2, 3, 21, 37}, 0, 127, 2)}};
          if (zero >= 0)
            for (const DType t : {a, b})
              c.inputs.push_back(random_tensor(t, {}, static_cast<double>(zero), static_cast<double>(zero), 3));
          c.threaded = true;
          check_on_cpu(c, "matmul_integer_dynamic");
        }
}

// Extremes of both types, whose products the accumulators must hold, and one b for all batches.
TEST(MatMulIntegerDynamic, ExtremesAndOneMatrix) {
  for (const int64_t m : {1, 15})
    for (const DType a : {DType::kI8, DType::kU8}) {
      OpCase c{Cat("rows ", m),
               Op::kMatMulInteger,
               make_attrs<MatMulAttrs>(),
               {random_tensor(a, {2, m, 600}, a == DType::kI8 ? -128 : 0, a == DType::kI8 ? 127 : 255, 1),
                random_tensor(DType::kU8, {600, 40}, 0, 255, 2), random_tensor(a, {}, 0, 0, 3),
                random_tensor(DType::kU8, {1}, 255, 255, 4)}};
      check_on_cpu(c, "matmul_integer_dynamic");
    }
}

}  // namespace
}  // namespace smelt
