#include <gtest/gtest.h>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

using test::random_tensor;

constexpr int64_t kRows = 24, kColumns = 64;

QuantPtr quantization(Quantization::Kind kind, int axis, int64_t scales, int32_t zero) {
  auto q = std::make_shared<Quantization>();
  q->kind = kind;
  q->axis = axis;
  q->block = 16;
  for (int64_t i = 0; i < scales; ++i) q->scales.push_back(0.01f + 0.003f * static_cast<float>(i % 11));
  q->zero_points.assign(q->scales.size(), zero);
  return q;
}

/// x times integers [24, 64] that a node makes real: by the value's quantization, or by a DequantizeLinear's operands.
std::shared_ptr<Module> product(DType dtype, const QuantPtr& quant, bool linear) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{3, kRows}));
  Tensor w = random_tensor(dtype, Shape{kRows, kColumns}, static_cast<double>(int_min(dtype)),
                           static_cast<double>(int_max(dtype)), 3);
  const ValueId real = b.value("w", ValueType::tensor(DType::kF32, w.shape()));
  if (linear) {
    QuantizeLinearAttrs a;
    a.axis = quant->axis;
    a.to = DType::kF32;
    const auto n = static_cast<int64_t>(quant->scales.size());
    Tensor scales(DType::kF32, Shape{n}), zeros(dtype, Shape{n});
    from_floats(quant->scales.data(), scales);
    for (int64_t i = 0; i < n; ++i) set_int(zeros, i, quant->zero_point(i));
    EXPECT_TRUE(b.node_to(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(a),
                          {b.constant("q", w), b.constant("s", scales), b.constant("z", zeros)}, {real})
                    .ok());
  } else {
    w.set_quant(quant);
    EXPECT_TRUE(b.node_to(Op::kDequantize, make_attrs<NoAttrs>(), {b.constant("q", w)}, {real}).ok());
  }
  b.graph().outputs = {b.op(Op::kMatMul, make_attrs<MatMulAttrs>(), {x, real}).value()};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

Tensor product_of(const std::shared_ptr<Module>& module, BackendKind backend) {
  const Tensor x = random_tensor(DType::kF32, Shape{3, kRows}, -1, 1, 5);
  const auto outputs = test::run_on(backend, ModelAccess::make(module), {x});
  return outputs.empty() ? Tensor() : outputs[0].tensor;
}

TEST(DequantizeWeights, RealValuesAreThoseOfTheNode) {
  using Kind = Quantization::Kind;
  for (const DType dtype : {DType::kI8, DType::kU8, DType::kI4, DType::kU4, DType::kI2}) {
    const int32_t zero = is_signed_integer(dtype) ? 0 : 1;
    for (const auto& [quant, linear] : {std::pair(quantization(Kind::kPerTensor, 0, 1, zero), false),
                                        std::pair(quantization(Kind::kPerAxis, 0, kRows, zero), false),
                                        std::pair(quantization(Kind::kPerAxis, 1, kColumns, zero), false),
                                        std::pair(quantization(Kind::kPerBlock, 1, kRows * kColumns / 16, zero), false),
                                        std::pair(quantization(Kind::kPerTensor, 0, 1, zero), true),
                                        std::pair(quantization(Kind::kPerAxis, 1, kColumns, zero), true)}) {
      const auto module = product(dtype, quant, linear);
      const auto made = dequantize_weights(std::make_shared<Module>(*module));
      ASSERT_EQ(made->graphs[0].nodes.size(), 1U);
      const Tensor& w = *made->graphs[0].value(made->graphs[0].nodes[0].inputs[1]).constant;
      ASSERT_NE(w.source(), nullptr);
      float part[100];
      w.copy_elements(37, 100, part);
      const Tensor all = w.read_once();
      for (int64_t i = 0; i < 100; ++i) ASSERT_EQ(part[i], all.data<float>()[37 + i]);
      const Tensor is = product_of(module, BackendKind::kCpu), should = product_of(module, BackendKind::kReference);
      for (int64_t i = 0; i < is.elements(); ++i)
        ASSERT_NEAR(get_double(is, i), get_double(should, i), 1e-5) << to_string(dtype) << ' ' << i;
    }
  }
}

TEST(DequantizeWeights, OthersStay) {
  auto module = product(DType::kI8, quantization(Quantization::Kind::kPerTensor, 0, 1, 0), false);
  Graph& g = module->graphs[0];
  g.inputs.push_back(g.nodes[0].inputs[0]);
  g.value(g.nodes[0].inputs[0]).constant = nullptr;
  const std::shared_ptr<const Module> same = module;
  EXPECT_EQ(dequantize_weights(same), same);
}

}  // namespace
}  // namespace smelt
