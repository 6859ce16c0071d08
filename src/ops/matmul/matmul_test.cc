#include "ops/matmul/matmul.h"

#include "support/op_runner.h"

namespace smelt::test {
namespace {

OpRunner matmul(const MatMulAttrs& a) { return OpRunner(Op::kMatMul, make_attrs<MatMulAttrs>(a)); }

TEST(MatMul, RanksBroadcastAsInNumpy) {
  struct Case {
    Shape a, b, y;
    std::vector<double> want;
  };
  const Case cases[] = {
      {{2}, {2}, {}, {1}},
      {{2}, {2, 3}, {3}, {3, 4, 5}},
      {{2, 2}, {2}, {2}, {1, 3}},
      {{2, 2}, {2, 3}, {2, 3}, {3, 4, 5, 9, 14, 19}},
      {{2, 1, 2}, {2, 2, 1}, {2, 1, 1}, {1, 13}},
      {{2, 1, 2}, {1, 2, 1}, {2, 1, 1}, {1, 3}},
      {{1, 1, 2}, {2, 2, 1}, {2, 1, 1}, {1, 3}},
      {{0, 2}, {2, 3}, {0, 3}, {}},
      {{1, 0}, {0, 2}, {1, 2}, {0, 0}},
  };
  for (const Case& c : cases)
    for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16, DType::kI32, DType::kC64}) {
      SCOPED_TRACE(c.a.str() + c.b.str() + to_string(dtype));
      const auto count = [](const Shape& s) {
        std::vector<double> v;
        for (int64_t i = 0; i < s.elements(); ++i) v.push_back(static_cast<double>(i));
        return v;
      };
      const auto make = [&](const Shape& s) {
        Tensor t(dtype, s);
        const auto v = count(s);
        for (size_t i = 0; i < v.size(); ++i)
          if (dtype == DType::kC64)
            t.data<float>()[2 * i] = static_cast<float>(v[i]);
          else
            set_double(t, static_cast<int64_t>(i), v[i]);
        return t;
      };
      const Tensor y = matmul({}).input(make(c.a)).input(make(c.b)).unknown_shapes().run();
      ASSERT_EQ(y.shape(), c.y);
      for (size_t i = 0; i < c.want.size(); ++i)
        EXPECT_EQ(
            dtype == DType::kC64 ? static_cast<double>(y.data<float>()[2 * i]) : get_double(y, static_cast<int64_t>(i)),
            c.want[i]);
    }
}

TEST(MatMul, TransposedOperandsFactorsAndAddend) {
  MatMulAttrs a;
  a.transpose_a = a.transpose_b = true;
  a.alpha = 2;
  a.beta = 0.5;
  a.act = {ActKind::kRelu};
  // a^T = [[1, 3], [2, 4]], b^T = [[1, 3], [2, -4]].
  expect_equal(matmul(a)
                   .input(floats({2, 2}, {1, 2, 3, 4}))
                   .input(floats({2, 2}, {1, 2, 3, -4}))
                   .input(floats({2, 1}, {10, 20}))
                   .run(),
               {19, 0, 30, 0});
}

TEST(MatMul, ConjugatesComplexOperands) {
  MatMulAttrs a;
  a.conjugate_a = true;
  Tensor x(DType::kC64, {1, 1}), y(DType::kC64, {1, 1});
  x.data<float>()[0] = 1;
  x.data<float>()[1] = 2;
  y.data<float>()[0] = 3;
  y.data<float>()[1] = 4;
  const Tensor z = matmul(a).input(x).input(y).run();
  EXPECT_EQ(z.data<float>()[0], 11);
  EXPECT_EQ(z.data<float>()[1], -2);
}

TEST(MatMul, FlattensAndKeepsDimensions) {
  MatMulAttrs a;
  a.transpose_b = true;
  const auto run = [&] {
    return matmul(a)
        .input(floats({2, 1, 2}, {1, 2, 3, 4}))
        .constant(floats({3, 2}, {1, 0, 0, 1, 1, 1}))
        .constant(floats({3}, {0, 0, 10}))
        .run();
  };
  EXPECT_EQ(run().shape(), (Shape{2, 1, 3}));
  a.flatten_a = true;
  EXPECT_EQ(run().shape(), (Shape{2, 3}));
  expect_equal(run(), {1, 2, 13, 3, 4, 17});
}

TEST(MatMul, BatchOfTheFirstDimensionButOne) {
  MatMulAttrs a;
  a.trans_batch_a = true;  // [m, batch, k]
  const Tensor y = matmul(a).input(floats({2, 2, 1}, {1, 2, 3, 4})).input(floats({2, 1, 1}, {1, 10})).run();
  EXPECT_EQ(y.shape(), (Shape{2, 2, 1}));
  expect_equal(y, {1, 3, 20, 40});
}

TEST(MatMul, RefusesOperandsThatDoNotFit) {
  EXPECT_NE(matmul({}).input(floats({1, 2}, {1, 2})).input(floats({3, 1}, {1, 2, 3})).error().find("multiplied"),
            std::string::npos);
  EXPECT_NE(matmul({}).input(floats({}, {1})).input(floats({1}, {1})).error().find("scalar"), std::string::npos);
  EXPECT_NE(
      matmul({}).input(Tensor(DType::kF32, {2, 1, 1})).input(Tensor(DType::kF32, {3, 1, 1})).error().find("broadcast"),
      std::string::npos);
}

TEST(MatMul, QuantizedIntegersKeepExactSums) {
  MatMulAttrs a;
  a.transpose_b = true;
  a.rounding = Rounding::kDoubleHalfAway;
  const Tensor x = quantized(DType::kI8, {1, 2}, {10, 20}, 0.5f, 10);
  const Tensor w = quantized(DType::kI8, {2, 2}, {1, 3, 1, -1}, 0.5f, 0);
  const Tensor bias = tensor(DType::kI32, {2}, {0, 8});
  const ValueType y = ValueType::tensor(DType::kI8, {1, 2}, per_tensor(1.0f, -1));
  // Accumulators 30 and -2 in units of 1/4: 7.5 -> 8 and -0.5 -> -1 (ties away from zero).
  expect_equal(matmul(a).input(x).constant(w).constant(bias).outputs({y}).run(), {7, -2});
  // A float output is the accumulator times the scales.
  const ValueType real = ValueType::tensor(DType::kF32, {1, 2});
  expect_equal(matmul(a).input(x).constant(w).constant(bias).outputs({real}).run(), {7.5, -0.5});
}

TEST(MatMul, SixteenBitActivationsRoundOnceWithTheWholeMultiplier) {
  MatMulAttrs a;
  a.transpose_b = true;
  a.rounding = Rounding::kDoubleHalfAway;
  // Factor 1/3 needs all 31 bits: 3 * 32767 * 127 / 3 with a 16-bit multiplier would be off by more than one.
  const Tensor x = quantized(DType::kI16, {1, 3}, {32767, 32767, 32767}, 1.0f, 0);
  const Tensor w = quantized(DType::kI8, {1, 3}, {127, 127, 127}, 1.0f, 0);
  const Tensor bias = tensor(DType::kI64, {1}, {0});
  const ValueType y = ValueType::tensor(DType::kI16, {1, 1}, per_tensor(3 * 127.0f, 0));
  expect_equal(matmul(a).input(x).constant(w).constant(bias).outputs({y}).run(), {32767});
}

TEST(MatMul, BlocksOfFourBitWeights) {
  Tensor w = tensor(DType::kU4, {2, 4}, {8, 9, 10, 7, 0, 15, 8, 8});
  w.set_quant(std::make_shared<const Quantization>(Quantization{
      .kind = Quantization::Kind::kPerBlock, .scales = {1, 2, 0.5, 4}, .zero_points = {8}, .axis = 1, .block = 2}));
  MatMulAttrs a;
  a.transpose_b = true;
  expect_near(matmul(a).input(floats({1, 4}, {1, 2, 3, 4})).constant(w).run(), {0 + 2 + 12 - 8, -4 + 7 + 0 + 0});
}

TEST(MatMul, RowsQuantizedAtRunTime) {
  Tensor x = tensor(DType::kI8, {2, 2}, {127, -128, 3, 5});
  x.set_quant(std::make_shared<const Quantization>(
      Quantization{.kind = Quantization::Kind::kPerToken, .scales = {0.5, 2}, .zero_points = {-1, 3}, .axis = 1}));
  const Tensor w = quantized(DType::kI8, {1, 2}, {2, 1}, 0.25f, 0);
  MatMulAttrs a;
  a.transpose_b = true;
  expect_near(matmul(a).input(x).constant(w).run(), {(256 - 127) * 0.125, 4 * 0.25});
}

TEST(MatMul, DynamicQuantOfEveryRow) {
  MatMulAttrs a;
  a.transpose_b = true;
  a.dynamic_quant = true;
  const Tensor w = quantized(DType::kI8, {1, 2}, {2, 1}, 0.25f, 0);
  // Row 0 at 1/127: 127, -64 (half away from zero); row 1 is zero.
  const Tensor y = matmul(a).input(floats({2, 2}, {1, -0.5, 0, 0})).constant(w).run();
  expect_near(y, {(254 - 64) * 0.25 / 127, 0});
  // Asymmetric: -0.5 .. 1 at 1.5/255, zero point -43: 127 and -128.
  a.asymmetric_inputs = true;
  const Tensor z = matmul(a).input(floats({2, 2}, {1, -0.5, 0, 0})).constant(w).run();
  expect_near(z, {(2 * 170 - 85) * 0.25 * 1.5 / 255, 0});
  // At 1, zero point -77: ties go away from zero before the zero point is added.
  const Tensor ties = matmul(a)
                          .input(floats({1, 4}, {-51, 204, -10.5, 10.5}))
                          .constant(quantized(DType::kI8, {2, 4}, {0, 0, 1, 0, 0, 0, 0, 1}, 1, 0))
                          .run();
  expect_near(ties, {-11, 11});
}

TEST(MatMul, DynamicQuantAfterTransposition) {
  MatMulAttrs a;
  a.transpose_a = a.transpose_b = true;
  a.dynamic_quant = true;
  const Tensor w = quantized(DType::kI8, {1, 2}, {2, 1}, 0.25f, 0);
  const Tensor y = matmul(a).input(floats({2, 2}, {1, 0, -0.5, 0})).constant(w).run();
  EXPECT_EQ(y.shape(), (Shape{2, 1}));
  expect_near(y, {(254 - 64) * 0.25 / 127, 0});
}

TEST(MatMul, DynamicQuantWithBlocks) {
  Tensor w = tensor(DType::kI4, {1, 4}, {1, 2, 3, 4});
  w.set_quant(std::make_shared<const Quantization>(
      Quantization{.kind = Quantization::Kind::kPerBlock, .scales = {1, 2}, .axis = 1, .block = 2}));
  MatMulAttrs a;
  a.transpose_b = true;
  a.dynamic_quant = true;
  expect_near(matmul(a).input(floats({1, 4}, {1, -0.5, 0, 0.25})).constant(w).run(), {(127 - 64 * 2 + 32 * 8) / 127.0});
}

TEST(MatMulInteger, ZeroPointsOfRowsAndColumns) {
  const Tensor y = OpRunner(Op::kMatMulInteger, make_attrs<MatMulAttrs>())
                       .input(tensor(DType::kU8, {2, 2}, {11, 12, 13, 14}))
                       .constant(tensor(DType::kI8, {2, 2}, {1, 2, 3, 4}))
                       .constant(tensor(DType::kU8, {2}, {10, 11}))
                       .constant(tensor(DType::kI8, {2}, {0, 1}))
                       .run();
  expect_equal(y, {7, 7, 11, 11});
}

struct EinsumCase {
  const char* equation;
  std::vector<Tensor> operands;
  Shape shape;
  std::vector<double> want;
};

TEST(Einsum, Equations) {
  const Tensor m = floats({2, 2}, {1, 2, 3, 4}), v = floats({2}, {1, 10}), b = floats({2, 1, 2}, {1, 2, 3, 4});
  const EinsumCase cases[] = {
      {"ij,jk->ik", {m, m}, {2, 2}, {7, 10, 15, 22}},
      {"ij->ji", {m}, {2, 2}, {1, 3, 2, 4}},
      {"ii", {m}, {}, {5}},
      {"ii->i", {m}, {2}, {1, 4}},
      {"ij->", {m}, {}, {10}},
      {"i,j->ij", {v, v}, {2, 2}, {1, 10, 10, 100}},
      {"i,i,i->i", {v, v, v}, {2}, {1, 1000}},
      {"ij , j", {m, v}, {2}, {21, 43}},
      {"...j,j->...", {b, v}, {2, 1}, {21, 43}},
      {"...ij,...jk->...ik", {b, m}, {2, 1, 2}, {7, 10, 15, 22}},
      {"ab,bc,cd->ad", {m, m, m}, {2, 2}, {37, 54, 81, 118}},
      {"bij,bij->b", {b, b}, {2}, {5, 25}},
      {"ba", {m}, {2, 2}, {1, 3, 2, 4}},
      {"aij,ik->ajk", {b, floats({1, 1}, {2})}, {2, 2, 1}, {2, 4, 6, 8}},
      {"ij,kj->", {m, floats({1, 1}, {3})}, {}, {30}},
  };
  for (const EinsumCase& c : cases) {
    SCOPED_TRACE(c.equation);
    EinsumAttrs a;
    a.equation = c.equation;
    OpRunner runner(Op::kEinsum, make_attrs<EinsumAttrs>(a));
    for (const Tensor& t : c.operands) runner.input(t);
    const Tensor y = runner.run();
    EXPECT_EQ(y.shape(), c.shape);
    expect_equal(y, c.want);
  }
}

TEST(Einsum, RefusesMalformedEquations) {
  for (const char* equation : {"ij,jk", "i", "ij->ik", "ij->ii", "i.j", "i2", "ij...,->"}) {
    SCOPED_TRACE(equation);
    EinsumAttrs a;
    a.equation = equation;
    OpRunner(Op::kEinsum, make_attrs<EinsumAttrs>(a)).input(floats({2, 2}, {1, 2, 3, 4})).error();
  }
}

TEST(LinearAlgebra, DeterminantAndInverse) {
  const Tensor x = floats({2, 2, 2}, {0, 2, 1, 3, 2, 0, 0, 4});
  expect_near(OpRunner(Op::kDet, make_attrs<NoAttrs>()).input(x).run(), {-2, 8});
  expect_near(OpRunner(Op::kInverse, make_attrs<NoAttrs>()).input(x).run(), {-1.5, 1, 0.5, 0, 0.5, 0, 0, 0.25});
  expect_near(OpRunner(Op::kDet, make_attrs<NoAttrs>()).input(floats({2, 2}, {1, 2, 2, 4})).run(), {0});
}

TEST(LinearAlgebra, Distances) {
  const auto run = [](const char* metric) {
    EinsumAttrs a;
    a.equation = metric;
    return OpRunner(Op::kPairwiseDistance, make_attrs<EinsumAttrs>(a))
        .input(floats({2, 2}, {0, 0, 3, 4}))
        .input(floats({1, 2}, {0, 0}))
        .run();
  };
  expect_near(run("euclidean"), {0, 5});
  expect_near(run("sqeuclidean"), {0, 25});
  expect_near(run("1"), {0, 7});
  expect_near(run("inf"), {0, 4});
}

}  // namespace
}  // namespace smelt::test
