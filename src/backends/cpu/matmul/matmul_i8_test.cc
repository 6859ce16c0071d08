#include <cstring>

#include "base/cat.h"
#include "ops/matmul/matmul.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

struct Row {
  int64_t m, k, n;
  bool transpose_b = true;
  bool bias = true;
};
const Row kRows[] = {{1, 64, 10},   {1, 37, 33, true, false}, {1, 60, 200},
                     {17, 130, 40}, {15, 64, 65, false},      {40, 1, 3},
                     {3, 1000, 70}, {15, 4096, 130}};  // rows that collide

Tensor weights(const Row& r, DType dtype, uint32_t seed) {
  const bool four = bit_width(dtype) == 4;
  const bool is_signed = is_signed_integer(dtype);
  const double lo = is_signed ? (four ? -8 : -128) : 0, hi = is_signed ? (four ? 7 : 127) : (four ? 15 : 255);
  return random_tensor(dtype, r.transpose_b ? Shape{r.n, r.k} : Shape{r.k, r.n}, lo, hi, seed);
}

std::vector<float> some_scales(int64_t n) {
  std::vector<float> scales;
  for (int64_t i = 0; i < n; ++i) scales.push_back(0.003f + 0.0007f * static_cast<float>(i % 7));
  return scales;
}

TEST(MatMulI8, Requantized) {
  for (const Row& r : kRows)
    for (DType x : {DType::kI8, DType::kU8})
      for (bool per_channel : {true, false})
        for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kDoubleHalfAway}) {
          auto attrs = std::make_shared<MatMulAttrs>();
          attrs->transpose_b = r.transpose_b;
          attrs->rounding = rounding;
          attrs->act.kind = r.m > 2 ? ActKind::kRelu : ActKind::kNone;
          const DType w = per_channel ? DType::kI8 : x;
          OpCase c;
          c.label = Cat("m ", r.m, " k ", r.k, " n ", r.n, ' ', to_string(x), ' ', to_string(rounding));
          c.op = Op::kMatMul;
          c.attrs = attrs;
          const int32_t middle = x == DType::kI8 ? -5 : 120;
          Tensor a = random_tensor(x, {r.m, r.k}, x == DType::kI8 ? -128 : 0, x == DType::kI8 ? 127 : 255, 1);
          a.set_quant(per_tensor(0.02f, middle));
          Tensor b = weights(r, w, 2);
          b.set_quant(per_channel ? per_axis(some_scales(r.n), r.transpose_b ? 0 : 1)
                                  : per_tensor(0.004f, w == DType::kU8 ? 131 : 0));
          c.inputs = {a, b, r.bias ? random_tensor(DType::kI32, {r.n}, -3000, 3000, 3) : Tensor()};
          c.constants = {1, 2};
          c.outputs[0].dtype = x;
          c.outputs[0].quant =
              per_tensor(0.02f * 0.004f * 140 * std::sqrt(static_cast<float>(r.k)), middle + 7, rounding);
          c.threaded = r.m == 17 && rounding == Rounding::kFloatHalfEven;
          check_on_cpu(c, "matmul_i8");
        }
}

/// Steps of a recurrent network.
TEST(MatMulI8, RowsWithOtherZeroPointsAndBiasesShareWeights) {
  const Row row{1, 60, 70};
  Tensor b = weights(row, DType::kI8, 2);
  b.set_quant(per_tensor(0.004f, 0));
  for (const Isa isa : tested_isas()) {
    PackCache packs;
    for (const int32_t zero : {-5, 90}) {
      OpCase c;
      c.op = Op::kMatMul;
      auto attrs = std::make_shared<MatMulAttrs>();
      attrs->transpose_b = true;
      c.attrs = attrs;
      Tensor a = random_tensor(DType::kI8, {1, row.k}, -128, 127, 1);
      a.set_quant(per_tensor(0.02f, zero));
      c.inputs = {a, b, random_tensor(DType::kI32, {row.n}, -3000, 3000, static_cast<uint32_t>(zero + 100))};
      c.constants = {1, 2};
      c.outputs[0].dtype = DType::kI8;
      c.outputs[0].quant = per_tensor(0.1f, 3);
      KernelRunner runner(c);
      const size_t before = packs.bytes();
      const auto shared = make_kernel(runner.spec(isa, 1, packs));
      ASSERT_TRUE(shared);
      EXPECT_TRUE(before == 0 || packs.bytes() == before) << to_string(isa);
      PackCache own;
      const auto alone = make_kernel(runner.spec(isa, 1, own));
      const auto want = runner.run(*alone, 1), got = runner.run(*shared, 1);
      ASSERT_TRUE(want.ok() && got.ok());
      EXPECT_EQ(std::memcmp((*want)[0].raw(), (*got)[0].raw(), (*want)[0].bytes()), 0);
    }
  }
}

OpCase real_case(const Row& r, DType w, int64_t block) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_b = r.transpose_b;
  attrs->act.kind = r.n == 40 ? ActKind::kRelu : ActKind::kNone;
  OpCase c;
  c.label = Cat("m ", r.m, " k ", r.k, " n ", r.n, ' ', to_string(w), " block ", block);
  c.op = Op::kMatMul;
  c.attrs = attrs;
  Tensor b = weights(r, w, 2);
  if (block) {
    auto q = std::make_shared<Quantization>();
    q->kind = Quantization::Kind::kPerBlock;
    q->axis = r.transpose_b ? 1 : 0;
    q->block = block;
    q->scales = some_scales((r.k + block - 1) / block * r.n);
    q->zero_points = {w == DType::kU4 ? 8 : 0};
    b.set_quant(q);
  } else {
    b.set_quant(per_axis(some_scales(r.n), r.transpose_b ? 0 : 1));
  }
  c.inputs = {Tensor(), b, r.bias ? random_tensor(DType::kF32, {r.n}, -1, 1, 3) : Tensor()};
  c.constants = {1, 2};
  return c;
}

TEST(MatMulI8, DynamicRows) {
  for (const Row& r : kRows)
    for (DType w : {DType::kI8, DType::kI4, DType::kU4})
      for (int64_t block : {0, 32}) {
        OpCase c = real_case(r, w, block);
        c.inputs[0] = random_tensor(DType::kI8, {r.m, r.k}, -128, 127, 1);
        auto q = std::make_shared<Quantization>();
        q->kind = Quantization::Kind::kPerToken;
        q->axis = 1;
        for (int64_t i = 0; i < r.m; ++i) {
          q->scales.push_back(0.01f + 0.001f * static_cast<float>(i));
          q->zero_points.push_back(static_cast<int32_t>(i % 11) - 5);
        }
        c.inputs[0].set_quant(q);
        c.outputs[0].dtype = DType::kF32;
        check_on_cpu(c, "matmul_qd8", {1e-2, 1e-4});
      }
}

TEST(MatMulI8, RowsWithOperandsForTheirParams) {
  for (const Row& r : kRows)
    for (DType x : {DType::kI8, DType::kU8})
      for (const bool one : {true, false}) {
        OpCase c = real_case(r, DType::kI8, 0);
        const bool s = x == DType::kI8;
        const Shape given = one ? Shape{} : Shape{r.m, 1};
        c.inputs[0] = random_tensor(x, {r.m, r.k}, s ? -128 : 0, s ? 127 : 255, 1);
        c.inputs.push_back(random_tensor(DType::kF32, given, 0.01, 0.05, 4));
        c.inputs.push_back(random_tensor(x, given, s ? -9 : 100, s ? 90 : 200, 5));
        c.constants = {1};
        c.outputs[0].dtype = DType::kF32;
        c.threaded = r.m > 20;
        check_on_cpu(c, "matmul_i8_per_token", {1e-2, 1e-4});
      }
}

TEST(MatMulI8, DynamicQuantBlocks) {
  for (const Row& r : kRows)
    for (DType w : {DType::kI4, DType::kU4})
      for (int64_t block : {0, 32}) {
        OpCase c = real_case(r, w, block);
        auto attrs = std::make_shared<MatMulAttrs>(static_cast<const MatMulAttrs&>(*c.attrs));
        attrs->dynamic_quant = true;
        attrs->asymmetric_inputs = block != 0;
        c.attrs = attrs;
        c.inputs[0] = random_tensor(DType::kF32, {r.m, r.k}, -2, 3, 1);
        c.outputs[0].dtype = DType::kF32;
        c.threaded = true;
        check_on_cpu(c, "matmul_w4", {1e-4, 1e-4});
      }
}

TEST(MatMulI8, DynamicQuant) {
  for (const Row& r : kRows)
    for (bool asymmetric : {false, true}) {
      OpCase c = real_case(r, DType::kI8, 0);
      auto attrs = std::make_shared<MatMulAttrs>(static_cast<const MatMulAttrs&>(*c.attrs));
      attrs->dynamic_quant = true;
      attrs->asymmetric_inputs = asymmetric;
      c.attrs = attrs;
      c.inputs[0] = random_tensor(DType::kF32, {r.m, r.k}, -2, 3, 1);
      c.outputs[0].dtype = DType::kF32;
      check_on_cpu(c, "matmul_dynamic_quant", {1e-5, 1e-5});
    }
}

}  // namespace
}  // namespace smelt
