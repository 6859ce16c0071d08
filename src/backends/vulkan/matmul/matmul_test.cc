#include "ops/matmul/matmul.h"

#include "tests/support/exporter_forms.h"
#include "tests/support/run_module.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

struct Row {
  Shape a, b, c;  ///< c of rank 0: absent
  bool transpose_a = false, transpose_b = false, flatten = false;
  ActKind act = ActKind::kNone;
  double alpha = 1, beta = 1;
};
const Row kRows[] = {
    {{5, 12}, {12, 20}, {20}},
    {{1, 33}, {9, 33}, {}, false, true, false, ActKind::kRelu},
    {{40, 7}, {7, 3}, {40, 3}},
    {{12, 5}, {12, 20}, {5, 1}, true, false, false, ActKind::kSigmoid, 0.5, 2},
    {{2, 3, 4, 6}, {2, 1, 6, 9}, {}},
    {{3, 4, 6}, {6, 9}, {3, 1, 9}},
    {{2, 3, 4, 6}, {24, 5}, {5}, false, false, true},
    {{6}, {2, 6, 9}, {}},
    {{2, 4, 6}, {6}, {}},
    {{2, 2, 3, 5, 4}, {2, 1, 3, 4, 6}, {}},
};

OpCase product(const Row& r, DType dtype, DType weights) {
  auto attrs = std::make_shared<MatMulAttrs>();
  attrs->transpose_a = r.transpose_a;
  attrs->transpose_b = r.transpose_b;
  attrs->flatten_a = r.flatten;
  attrs->act.kind = r.act;
  attrs->alpha = r.alpha;
  attrs->beta = r.beta;
  OpCase c;
  c.op = Op::kMatMul;
  c.attrs = attrs;
  c.label = "a " + r.a.str() + " b " + r.b.str() + " " + to_string(dtype) + " " + to_string(weights);
  Tensor b = random_tensor(weights, r.b, is_integer(weights) ? -7 : -1, is_integer(weights) ? 7 : 1, 2);
  if (is_integer(weights)) b.set_quant(per_tensor(0.1f, 0));
  c.inputs = {random_tensor(dtype, r.a, -1, 1, 1), b};
  c.constants = {1, 2};
  if (r.c.rank() > 0) c.inputs.push_back(random_tensor(dtype, r.c, -1, 1, 3));
  c.outputs[0].dtype = dtype;
  return c;
}

TEST(VulkanMatMul, Reals) {
  SKIP_WITHOUT_GPU();
  for (const Row& r : kRows) {
    for (bool dynamic : {false, true}) {
      OpCase c = product(r, DType::kF32, DType::kF32);
      if (dynamic) c.constants.clear();
      check_on_gpu(c, "matmul_float|matmul_packed_f32");
    }
    check_on_gpu(product(r, DType::kF16, DType::kF16), "matmul_float|matmul_packed_f32", 5e-3);
  }
}

TEST(VulkanMatMul, QuantizedWeights) {
  SKIP_WITHOUT_GPU();
  for (size_t i = 0; i < 4; ++i)
    for (DType weights : {DType::kI8, DType::kI4}) {
      check_on_gpu(product(kRows[i], DType::kF32, weights), "matmul_float|matmul_packed_f32");
      check_on_gpu(product(kRows[i], DType::kF16, weights), "matmul_float|matmul_packed_f32", 5e-3);
    }
}

TEST(VulkanMatMul, BlocksAndColumnsOfIntegerWeights) {
  SKIP_WITHOUT_GPU();
  if (!eight_lanes()) GTEST_SKIP() << "the device has no subgroups of eight lanes";
  for (bool transposed : {false, true})
    for (int64_t n : {20, 21})
      for (DType weights : {DType::kI8, DType::kI4, DType::kU4})
        for (int64_t block : {0, 8, 16}) {
          const int64_t m = weights == DType::kI4 ? 5 : 9, k = 40, blocks = block ? (k + block - 1) / block : 1;
          const Row r{{m, k}, transposed ? Shape{n, k} : Shape{k, n}, {n}, false, transposed};
          OpCase c = product(r, DType::kF32, weights);
          c.label += " block " + std::to_string(block);
          Tensor b = random_tensor(weights, r.b, weights == DType::kU4 ? 0 : -8, weights == DType::kU4 ? 15 : 7, 2);
          Quantization q;
          q.kind = block ? Quantization::Kind::kPerBlock : Quantization::Kind::kPerAxis;
          q.axis = block ? (transposed ? 1 : 0) : (transposed ? 0 : 1);
          q.block = block;
          for (int64_t i = 0; i < n * blocks; ++i) {
            q.scales.push_back(0.01f + 0.003f * static_cast<float>(i % 7));
            q.zero_points.push_back(weights == DType::kU4 ? 8 : weights == DType::kI8 ? static_cast<int>(i % 5) : 0);
          }
          b.set_quant(std::make_shared<const Quantization>(q));
          c.inputs[1] = b;
          check_on_gpu(c, "matmul_packed_f32");
        }
}

TEST(VulkanMatMul, SumsWithZeroPointsFromTensors) {
  SKIP_WITHOUT_GPU();
  const auto fill = [](DType t, const Shape& s, uint32_t seed) {
    return random_tensor(t, s, t == DType::kI8 ? -128 : 0, t == DType::kI8 ? 127 : 255, seed);
  };
  for (DType a : {DType::kI8, DType::kU8})
    for (DType b : {DType::kI8, DType::kU8})
      for (int zeros : {0, 1, 2}) {
        OpCase c;
        c.op = Op::kMatMulInteger;
        c.attrs = std::make_shared<MatMulAttrs>();
        c.label = std::string(to_string(a)) + " " + to_string(b) + " zeros " + std::to_string(zeros);
        c.inputs = {fill(a, {5, 12}, 1), fill(b, {12, 20}, 2)};
        c.constants = {1, 3};
        if (zeros == 1) c.inputs.insert(c.inputs.end(), {fill(a, {}, 3), fill(b, {1}, 4)});
        if (zeros == 2) c.inputs.insert(c.inputs.end(), {fill(a, {5}, 3), fill(b, {20}, 4)});
        c.outputs[0].dtype = DType::kI32;
        check_on_gpu(c, "matmul_integer");
      }
}

TEST(VulkanMatMul, Integers) {
  SKIP_WITHOUT_GPU();
  const std::pair<DType, DType> quantized[] = {
      {DType::kI8, DType::kI8}, {DType::kU8, DType::kU8}, {DType::kU8, DType::kI8}};
  const auto fill = [](DType t, const Shape& s, uint32_t seed) {
    return random_tensor(t, s, t == DType::kI8 ? -128 : 0, t == DType::kI8 ? 127 : 255, seed);
  };
  for (const auto& [a, b] : quantized)
    for (Rounding rounding : {Rounding::kFloatHalfEven, Rounding::kFixedDouble, Rounding::kDoubleHalfAway})
      for (bool dynamic : {false, true})
        for (const Row& r : {kRows[0], kRows[1], kRows[4]}) {
          if (dynamic && rounding != Rounding::kFixedDouble) continue;
          OpCase c = product(r, DType::kF32, DType::kF32);
          auto attrs = std::make_shared<MatMulAttrs>(static_cast<const MatMulAttrs&>(*c.attrs));
          attrs->rounding = rounding;
          c.attrs = attrs;
          c.label += std::string(" ") + to_string(a) + " " + to_string(b) + " " + to_string(rounding);
          Tensor ta = fill(a, r.a, 1), tb = fill(b, r.b, 2);
          ta.set_quant(per_tensor(0.02f, a == DType::kI8 ? -9 : 101, rounding));
          tb.set_quant(per_tensor(0.004f, b == DType::kI8 ? 3 : 131));
          const int64_t n = attrs->transpose_b ? r.b[0] : r.b.back();
          if (!dynamic && r.b.rank() == 2 && b == DType::kI8) {
            std::vector<float> scales;
            for (int64_t o = 0; o < n; ++o) scales.push_back(0.003f + 0.0007f * static_cast<float>(o % 7));
            tb.set_quant(per_axis(scales, attrs->transpose_b ? 0 : 1));
          }
          c.inputs = {ta, tb, random_tensor(DType::kI32, {n}, -5000, 5000, 3)};
          c.constants = {2};
          if (!dynamic) c.constants.push_back(1);
          c.outputs[0].dtype = a;
          c.outputs[0].quant = per_tensor(0.2f, a == DType::kI8 ? -7 : 99, rounding);
          check_on_gpu(c, "matmul_i8|matmul_packed_i8");
        }
}

TEST(VulkanMatMul, ConstantsAreReadInTwoOrders) {
  SKIP_WITHOUT_GPU();
  for (const DType weights : {DType::kF32, DType::kI8, DType::kI4}) {
    SCOPED_TRACE(to_string(weights));
    const auto module = module_of_one_graph();
    Forms f{Builder(*module, 0)};
    Tensor w = random_tensor(weights, {24, 40}, -7, 7, 1);
    if (is_integer(weights)) w.set_quant(per_tensor(0.1f, 0));
    const ValueId matrix = f.b.constant("", w);
    std::vector<Datum> fed;
    for (const bool transposed : {false, true}) {
      MatMulAttrs a;
      a.transpose_b = transposed;
      const Shape rows{5, transposed ? 40 : 24};
      fed.emplace_back(random_tensor(DType::kF32, rows, -1, 1, 2));
      f.b.graph().outputs.push_back(
          f.op(Op::kMatMul, make_attrs<MatMulAttrs>(a), {f.b.input("", ValueType::tensor(DType::kF32, rows)), matrix}));
    }
    const Model model = ModelAccess::make(module);
    expect_same(run_on(BackendKind::kVulkan, model, fed), run_on_reference(model, fed), {1e-4, 1e-4});
  }
}

TEST(VulkanMatMul, ConstantsInTheSameBytesAreToldApart) {
  SKIP_WITHOUT_GPU();
  const auto module = module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, {5, 24}));
  Tensor weights = random_tensor(DType::kI8, {24, 40}, -7, 7, 1);
  for (const int zero : {0, 3})
    for (const float scale : {0.1f, 0.3f}) {
      weights.set_quant(per_tensor(scale, zero));
      f.b.graph().outputs.push_back(f.matmul(x, f.b.constant("", weights)));
    }
  const Model model = ModelAccess::make(module);
  const std::vector<Datum> fed{random_tensor(DType::kF32, {5, 24}, -1, 1, 2)};
  expect_same(run_on(BackendKind::kVulkan, model, fed), run_on_reference(model, fed), {1e-4, 1e-4});
}

}  // namespace
}  // namespace smelt::vulkan
