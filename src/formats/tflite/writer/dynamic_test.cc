// Values quantized with parameters chosen at run time, written as TFLite, read back and run.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;

TEST(TfliteDynamicQuantization, RangesAndRules) {
  for (const DType to : {DType::kU8, DType::kI8})
    for (const bool per_row : {false, true})
      for (const int rule : {0, 1, 2}) {
        DynamicQuantizeAttrs a;
        a.to = to;
        a.per_row = per_row;
        a.symmetric = rule == 1 && to == DType::kI8;
        a.xnnpack_rule = rule == 2;
        if (per_row && to == DType::kI8) {
          a.quant_min = -7;
          a.quant_max = 7;
          a.eps = 0.5;
        }
        test::OpCase c{"dynamic", Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(a), {f32({3, 17}, 5)}};
        c.outputs.resize(3);
        const auto module = test::one_node(c);
        EXPECT_TRUE(test::expect_same_written(module, {c.inputs[0]}, "tflite")) << to_string(to) << rule << per_row;
      }
}

/// Rows [2, 3, k] rounded to steps of their own, times constant weights [n, k], behind `from`.
class RoundedProduct {
 public:
  RoundedProduct(Tensor weights, QuantPtr quant) {
    Builder b(*module, 0);
    const int64_t depth = weights.dim(1), outs = weights.dim(0);
    x = f32({2, 3, depth}, 9);
    const ValueId in = b.input("x", ValueType::tensor(DType::kF32, x.shape()));
    Quantization rows;
    rows.kind = Quantization::Kind::kPerToken;
    rows.axis = 1;
    ValueType rounded = ValueType::tensor(DType::kI8, x.shape());
    rounded.quant = std::make_shared<const Quantization>(rows);
    const auto q = b.op_as(Op::kQuantize, make_attrs<NoAttrs>(), {in}, rounded);
    weights.set_quant(std::move(quant));
    MatMulAttrs a;
    a.transpose_b = true;
    const auto y = b.op_as(Op::kMatMul, make_attrs<MatMulAttrs>(a),
                           {*q, b.constant("w", std::move(weights)), b.constant("c", f32({outs}, 3))},
                           ValueType::tensor(DType::kF32));
    EXPECT_TRUE(y.ok()) << (y.ok() ? "" : y.error().message());
    b.graph().outputs.push_back(*y);
  }

  /// The weights in the file that is written.
  ValueType written_weights(double tolerance) const {
    const auto back = test::expect_same_written(module, {x}, "tflite", {}, tolerance);
    if (!back) return {};
    const Graph& g = module_of(*back).graphs[0];
    const auto at = std::ranges::find(g.nodes, Op::kMatMul, &Node::op);
    EXPECT_NE(at, g.nodes.end());
    return at == g.nodes.end() ? ValueType{} : g.value(at->inputs[1]).type;
  }

  std::shared_ptr<Module> module = test::module_of_one_graph();
  Tensor x;
};

TEST(TfliteDynamicQuantization, KernelsThatRoundRowsThemselves) {
  std::vector<float> scales{0.01f, 0.02f, 0.005f, 0.03f};
  const Tensor bytes = test::random_tensor(DType::kI8, Shape{4, 32}, -127, 127, 7);
  const ValueType w = RoundedProduct(bytes, test::per_axis(scales, 0)).written_weights(0.03);
  EXPECT_EQ(w.dtype, DType::kI8);
  ASSERT_TRUE(w.quant);
  EXPECT_EQ(w.quant->scales, scales);
  const Tensor nibbles = test::random_tensor(DType::kU4, Shape{4, 32}, 0, 15, 7);
  const ValueType narrow = RoundedProduct(nibbles, test::per_axis(scales, 0, {8, 8, 8, 8})).written_weights(0.03);
  EXPECT_EQ(narrow.dtype, DType::kI4);
}

TEST(TfliteDynamicQuantization, WeightsWithZeroPoints) {
  const Tensor bytes = test::random_tensor(DType::kI8, Shape{4, 32}, -127, 127, 7);
  const ValueType w =
      RoundedProduct(bytes, test::per_axis({0.01f, 0.02f, 0.005f, 0.03f}, 0, {3, 0, 1, -2})).written_weights(1e-5);
  EXPECT_EQ(w.dtype, DType::kF32);
}

}  // namespace
}  // namespace smelt
