#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

using test::random_tensor;

Tensor narrow(DType dtype, const Shape& shape) {
  Tensor t(dtype, shape);
  const int64_t low = int_min(dtype), codes = int_max(dtype) - low + 1;
  for (int64_t i = 0; i < t.elements(); ++i) set_int(t, i, low + (i * 7 + i / 5) % codes);
  t.set_quant(test::per_tensor(0.1f, is_signed_integer(dtype) ? 0 : 1));
  return t;
}

/// A convolution and a product of one image of 8 channels, with weights of that type.
std::shared_ptr<Module> convolution_and_product(DType weights, bool quantized) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const auto type = [&](const Shape& s, float scale) {
    return quantized ? ValueType::tensor(DType::kI8, s, test::per_tensor(scale, 0)) : ValueType::tensor(DType::kF32, s);
  };
  const ValueId x = b.input("x", type(Shape{1, 5, 5, 8}, 0.05f));
  ConvAttrs conv;
  conv.layout = Layout::kChannelsLast;
  conv.filter = FilterLayout::kOSI;
  conv.dynamic_quant = !quantized;
  MatMulAttrs product;
  product.transpose_b = true;
  product.dynamic_quant = !quantized;
  const ValueId y = b.value("y", type(Shape{1, 3, 3, 16}, 0.5f)), z = b.value("z", type(Shape{1, 5, 5, 16}, 0.5f));
  EXPECT_TRUE(
      b.node_to(Op::kConv, make_attrs<ConvAttrs>(conv), {x, b.constant("f", narrow(weights, Shape{16, 3, 3, 8}))}, {y})
          .ok());
  EXPECT_TRUE(
      b.node_to(Op::kMatMul, make_attrs<MatMulAttrs>(product), {x, b.constant("w", narrow(weights, Shape{16, 8}))}, {z})
          .ok());
  b.graph().outputs = {y, z};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

std::vector<Datum> run(const std::shared_ptr<Module>& module, BackendKind backend) {
  const ValueType& type = module->graphs[0].value(module->graphs[0].inputs[0]).type;
  Tensor x = type.quant ? random_tensor(DType::kI8, type.shape, -128, 127, 3)
                        : random_tensor(DType::kF32, type.shape, -1, 1, 3);
  x.set_quant(type.quant);
  return test::run_on(backend, ModelAccess::make(module), {x});
}

TEST(WidenWeights, ConvolutionsTakeBytes) {
  for (const DType dtype : {DType::kI4, DType::kU4, DType::kI2, DType::kU2}) {
    for (const bool quantized : {false, true}) {
      const auto module = convolution_and_product(dtype, quantized);
      const auto wide = widen_weights(std::make_shared<Module>(*module));
      const Graph& g = wide->graphs[0];
      for (size_t k = 0; k < 2; ++k) {
        const bool widens = k == 0 || quantized || bit_width(dtype) == 2;
        const Tensor& now = *g.value(g.nodes[k].inputs[1]).constant;
        const Tensor& before = *module->graphs[0].value(module->graphs[0].nodes[k].inputs[1]).constant;
        EXPECT_EQ(bit_width(now.dtype()), widens ? 8 : bit_width(dtype));
        EXPECT_EQ(is_signed_integer(now.dtype()), is_signed_integer(dtype));
        for (int64_t i = 0; i < now.elements(); ++i) ASSERT_EQ(get_int(now, i), get_int(before, i)) << i;
      }
    }
  }
}

TEST(WidenWeights, ResultsAreThoseOfTheReference) {
  for (const DType dtype : {DType::kI4, DType::kU4, DType::kI2}) {
    for (const bool quantized : {false, true}) {
      const auto module = convolution_and_product(dtype, quantized);
      const auto is = run(module, BackendKind::kCpu), should = run(module, BackendKind::kReference);
      ASSERT_EQ(is.size(), should.size());
      for (size_t k = 0; k < is.size(); ++k)
        for (int64_t i = 0; i < is[k].tensor.elements(); ++i)
          ASSERT_NEAR(get_double(is[k].tensor, i), get_double(should[k].tensor, i), quantized ? 0 : 1e-5) << i;
    }
  }
}

/// Runs pack the columns of such a product a range at a time.
TEST(WidenWeights, ProductsOfOneRowTakeRangesOfColumns) {
  constexpr int64_t kDepth = 1024, kColumns = 1100;
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, kDepth}));
  Tensor w = narrow(DType::kI2, Shape{kColumns, kDepth});
  std::vector<float> scales;
  for (int64_t i = 0; i < kColumns; ++i) scales.push_back(0.003f + 0.0007f * static_cast<float>(i % 7));
  w.set_quant(test::per_axis(std::move(scales), 0));
  MatMulAttrs product;
  product.transpose_b = true;
  product.dynamic_quant = true;
  const ValueId y = b.value("y", ValueType::tensor(DType::kF32, Shape{1, kColumns}));
  ASSERT_TRUE(b.node_to(Op::kMatMul, make_attrs<MatMulAttrs>(product), {x, b.constant("w", w)}, {y}).ok());
  b.graph().outputs = {y};
  ASSERT_TRUE(verify(*module).ok());
  const auto is = run(module, BackendKind::kCpu), should = run(module, BackendKind::kReference);
  ASSERT_EQ(is.size(), should.size());
  for (int64_t i = 0; i < is[0].tensor.elements(); ++i)
    ASSERT_NEAR(get_double(is[0].tensor, i), get_double(should[0].tensor, i), 1e-5) << i;
}

TEST(WidenWeights, AModuleWithoutStaysItself) {
  const std::shared_ptr<const Module> module = convolution_and_product(DType::kI8, true);
  EXPECT_EQ(widen_weights(module), module);
}

}  // namespace
}  // namespace smelt
