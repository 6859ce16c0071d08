#include <cmath>

#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/matmul/matmul.h"

namespace smelt::bench {
using namespace smelt::test;

namespace {

struct MatMulSize {
  const char* name;
  int64_t m, k, n;
  double operations() const { return 2.0 * static_cast<double>(m * k * n); }
};
const MatMulSize kSizes[] = {{"mbv2_classifier", 1, 1280, 1000},
                             {"bert_ffn", 128, 768, 3072},
                             {"t5_ffn", 128, 2048, 512},
                             {"square", 512, 512, 512}};
/// A decoder's steps, of one and of several sequences, and a prompt: 4-bit weights beyond the inner caches.
const MatMulSize kDecoderSizes[] = {
    {"llama_ffn", 1, 2048, 8192}, {"llama_ffn", 4, 2048, 8192}, {"llama_ffn", 64, 2048, 8192}};
/// Rotations before quantized products.
const MatMulSize kRotations[] = {{"rotation", 1, 1024, 1024}, {"rotation", 128, 1024, 1024}, {"rotation", 591, 64, 64}};
/// One row in a network whose weights no cache holds: products take turns.
const MatMulSize kStreamedSizes[] = {
    {"streamed", 1, 576, 576}, {"streamed", 1, 576, 1536}, {"streamed", 1, 1536, 576}, {"streamed", 1, 2048, 8192}};
constexpr size_t kStreamedBytes = size_t{128} << 20;

OpCase matmul_case(const MatMulSize& s, const char* kind, MatMulAttrs a, Tensor x, Tensor w, ValueType y = {}) {
  a.transpose_b = true;
  return {Cat(s.name, '/', s.m, 'x', s.k, 'x', s.n, '/', kind),
          Op::kMatMul,
          make_attrs<MatMulAttrs>(a),
          {std::move(x), std::move(w)},
          {1},
          {std::move(y)}};
}

/// Weights [n, k] with one scale a row, or one for every `block` entries of a row.
Tensor weights(const MatMulSize& s, DType dtype, int64_t block = 0, double limit = 127) {
  const bool four = dtype == DType::kI4;
  Tensor w = random_tensor(dtype, {s.n, s.k}, four ? -8 : -limit, four ? 7 : limit, 2);
  auto q = std::make_shared<Quantization>();
  q->kind = block ? Quantization::Kind::kPerBlock : Quantization::Kind::kPerAxis;
  q->axis = block ? 1 : 0;
  q->block = block;
  q->scales.assign(static_cast<size_t>(s.n * (block ? s.k / block : 1)), 0.004f);
  w.set_quant(q);
  return w;
}

/// int8 rows, each with a scale of its own.
Tensor per_token_rows(const MatMulSize& s) {
  Tensor x = random_tensor(DType::kI8, {s.m, s.k}, -128, 127, 1);
  auto q = std::make_shared<Quantization>();
  q->kind = Quantization::Kind::kPerToken;
  q->axis = 1;
  q->scales.assign(static_cast<size_t>(s.m), 0.02f);
  q->zero_points.assign(static_cast<size_t>(s.m), -3);
  x.set_quant(q);
  return x;
}

void add_w4_cases(BenchCases& cases, const MatMulSize& s, size_t network_bytes = 0) {
  MatMulAttrs unquantized, blocks;
  blocks.row_block = 32;
  const ValueType real = ValueType::tensor(DType::kF32);
  const auto add = [&](OpCase c) { cases.add(std::move(c), s.operations(), network_bytes); };
  add(matmul_case(s, "qd8_w4", unquantized, per_token_rows(s), weights(s, DType::kI4), real));
  add(matmul_case(s, "w4_block32", unquantized, f32({s.m, s.k}), weights(s, DType::kI4, 32), real));
  add(matmul_case(s, "w4_block32_dynamic", blocks, f32({s.m, s.k}), weights(s, DType::kI4, 32), real));
}

}  // namespace

/// A block of a mixture of 8 experts, two for each token.
OpCase expert_case(int64_t tokens, DType weight_type) {
  const MatMulSize s{"experts", tokens, 1024, 1024};
  OpCase c{Cat(s.name, '/', tokens, "x2x1024x1024/", weight_type == DType::kF32 ? "f32" : "w4"),
           Op::kExpertMatMul,
           make_attrs<ExpertMatMulAttrs>(ExpertMatMulAttrs{}),
           {random_tensor(DType::kF32, {tokens, s.k}, -1, 1, 1), random_tensor(DType::kI64, {tokens, 2}, 0, 7, 2)}};
  for (size_t i = 0; i < 8; ++i) {
    c.constants.push_back(c.inputs.size());
    c.inputs.push_back(weight_type == DType::kF32 ? f32({s.n, s.k}, 2) : weights(s, weight_type, 32));
  }
  return c;
}

SMELT_BENCH_CASES(matmul) {
  for (const int64_t tokens : {1, 64})
    for (const DType w : {DType::kF32, DType::kI4})
      cases.add(expert_case(tokens, w), 2.0 * 2 * 1024 * 1024 * static_cast<double>(tokens));
  for (const MatMulSize& s : kRotations)
    cases.add(matmul_case(s, "hadamard", {}, f32({s.m, s.k}), hadamard(s.n, 0.03125f)),
              static_cast<double>(s.m * s.n) * std::log2(static_cast<double>(s.n)));
  for (const MatMulSize& s : kDecoderSizes) add_w4_cases(cases, s);
  for (const MatMulSize& s : kStreamedSizes) {
    add_w4_cases(cases, s, kStreamedBytes);
    cases.add(matmul_case(s, "f32", {}, f32({s.m, s.k}), f32({s.n, s.k}, 2)), s.operations(), kStreamedBytes);
    cases.add(matmul_case(s, "qd8", {}, per_token_rows(s), weights(s, DType::kI8), ValueType::tensor(DType::kF32)),
              s.operations(), kStreamedBytes);
  }
  for (const MatMulSize& s : kSizes) {
    const Shape rows{s.m, s.k}, columns{s.n, s.k};
    MatMulAttrs unquantized, fixed, dynamic;
    fixed.rounding = Rounding::kFixedDouble;
    dynamic.dynamic_quant = true;
    const Tensor bytes = random_quantized(DType::kI8, rows, 0.02f, -3, 1);
    const ValueType i8 = quantized_type(DType::kI8, 0.3f, 5), real = ValueType::tensor(DType::kF32);
    const auto add = [&](OpCase c) { cases.add(std::move(c), s.operations()); };
    add(matmul_case(s, "f32", unquantized, f32(rows), f32(columns, 2)));
    OpCase varying = matmul_case(s, "f32_f32", unquantized, f32(rows), f32(columns, 2));
    varying.constants.clear();
    add(std::move(varying));
    add(matmul_case(s, "f16", unquantized, random_tensor(DType::kF16, rows, -1, 1, 1),
                    random_tensor(DType::kF16, columns, -1, 1, 2)));
    add(matmul_case(s, "f32_f16", unquantized, f32(rows), widened(random_tensor(DType::kF16, columns, -1, 1, 2))));
    add(matmul_case(s, "qi8", fixed, bytes, weights(s, DType::kI8), i8));
    OpCase both = matmul_case(s, "qi8_qi8", fixed, bytes, random_quantized(DType::kI8, columns, 0.004f, 0, 2), i8);
    both.constants.clear();
    add(std::move(both));
    // Accumulators of 16-bit values and small weights fit in 32 bits.
    add(matmul_case(s, "qi16", fixed, random_quantized(DType::kI16, rows, 3e-4f, 0, 1), weights(s, DType::kI8, 0, 7),
                    quantized_type(DType::kI16, 9e-4f, 0)));
    OpCase wide =
        matmul_case(s, "qi16_qi16", fixed, random_quantized(DType::kI16, rows, 3e-4f, 0, 1),
                    random_quantized(DType::kI16, columns, 2e-4f, 0, 2), quantized_type(DType::kI16, 9e-4f, 0));
    wide.constants.clear();
    add(std::move(wide));
    add(matmul_case(s, "dynamic", dynamic, f32(rows), weights(s, DType::kI8), real));
    add(matmul_case(s, "qd8", unquantized, per_token_rows(s), weights(s, DType::kI8), real));
    OpCase operands = matmul_case(s, "i8_operands", unquantized, random_tensor(DType::kU8, rows, 0, 255, 1),
                                  weights(s, DType::kI8), real);
    operands.inputs.insert(operands.inputs.end(), {Tensor(), Tensor::from<float>(DType::kF32, {}, std::vector{0.02f}),
                                                   random_tensor(DType::kU8, {}, 120, 120, 3)});
    add(std::move(operands));
    add_w4_cases(cases, s);
    for (const bool constant : {true, false})
      add({Cat(s.name, '/', s.m, 'x', s.k, 'x', s.n, constant ? "/integer" : "/integer_dynamic"),
           Op::kMatMulInteger,
           make_attrs<MatMulAttrs>(unquantized),
           {random_tensor(DType::kU8, rows, 0, 255, 1), random_tensor(DType::kI8, {s.k, s.n}, -127, 127, 2),
            random_tensor(DType::kU8, {}, 3, 90, 3)},
           constant ? std::vector<size_t>{1} : std::vector<size_t>{}});
  }
}

}  // namespace smelt::bench
