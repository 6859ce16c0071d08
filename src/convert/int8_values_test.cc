// Quantized values on their way to a delegate of int8.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "convert/convert.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/pool/pool.h"
#include "ops/shape/shape.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::OpCase;

/// Of a QuantizeLinear to uint8, or of a DequantizeLinear to float32.
AttrsPtr linear_attrs(Op op) {
  QuantizeLinearAttrs a;
  a.to = op == Op::kQuantizeLinear ? DType::kU8 : DType::kF32;
  return make_attrs<QuantizeLinearAttrs>(a);
}

/// Q -> DQ -> Conv -> Q -> DQ with uint8 activations and int8 weights, as exporters of ONNX write it.
std::shared_ptr<Module> quantized_conv() {
  auto module = std::make_shared<Module>();
  module->graphs.emplace_back().name = "main";
  module->methods.push_back({.name = "main", .graph = 0});
  Builder b(*module, 0);
  const auto zero = [&](double z) { return b.constant("", test::tensor(DType::kU8, Shape{}, {z})); };
  const auto node = [&](Op op, AttrsPtr attrs, std::vector<ValueId> inputs) {
    auto made = b.op(op, std::move(attrs), inputs);
    EXPECT_TRUE(made.ok());
    return made.ok() ? *made : kNoValue;
  };
  const auto linear = [&](Op op, ValueId x, float scale, ValueId zero_point) {
    return node(op, linear_attrs(op), {x, b.f32_scalar(scale), zero_point});
  };
  const auto rounded = [&](ValueId x, float scale, double z) {
    return linear(Op::kDequantizeLinear, linear(Op::kQuantizeLinear, x, scale, zero(z)), scale, zero(z));
  };
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 3, 6, 5}));
  const ValueId weights = b.constant("w", test::random_tensor(DType::kI8, {4, 3, 2, 2}, -127, 127, 2));
  const ValueId filter =
      linear(Op::kDequantizeLinear, weights, 0.01f, b.constant("", test::tensor(DType::kI8, Shape{}, {0})));
  const ValueId y = node(Op::kConv, make_attrs<ConvAttrs>(), {rounded(x, 0.02f, 120), filter});
  b.graph().inputs = {x};
  b.graph().outputs = {rounded(y, 0.05f, 131)};
  return module;
}

Graph program_of(const std::shared_ptr<Module>& module, const std::string& delegate) {
  const auto back =
      test::expect_same_written(module, {test::f32({1, 3, 6, 5})}, "pte", {.write = {.delegate = delegate}}, 1e-6);
  return back ? module_of(*back).graphs[0] : Graph{};
}

TEST(Int8Values, PairsAroundConvolutionsBecomeIntegers) {
  const Graph graph = program_of(quantized_conv(), "xnnpack");
  const auto conv = std::ranges::find(graph.nodes, Op::kConv, &Node::op);
  ASSERT_NE(conv, graph.nodes.end());
  EXPECT_EQ(conv->origin, "XNNConv2d");
  for (const ValueId id : {conv->inputs[0], conv->outputs[0]}) {
    const ValueType& t = graph.value(id).type;
    EXPECT_EQ(t.dtype, DType::kI8);
    ASSERT_TRUE(t.quant);
    EXPECT_EQ(t.quant->zero_point(), id == conv->inputs[0] ? -8 : 3);
  }
}

TEST(Int8Values, CallsTakeUint8) {
  const Graph graph = program_of(quantized_conv(), "none");
  EXPECT_TRUE(std::ranges::none_of(graph.nodes, [](const Node& n) { return n.origin.starts_with("XNN"); }));
}

TEST(Int8Values, MaximaOfIntegersHaveTheParametersOfTheirOperand) {
  Module module;
  module.graphs.emplace_back().name = "main";
  Builder b(module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 1, 4, 4}));
  const ValueId scale = b.f32_scalar(0.5f), zero = b.constant("", test::tensor(DType::kU8, Shape{}, {7}));
  PoolAttrs pool;
  pool.kernel = pool.strides = {2, 2};
  ValueId y = x;
  for (const auto& [op, attrs] : {std::pair<Op, AttrsPtr>{Op::kQuantizeLinear, linear_attrs(Op::kQuantizeLinear)},
                                  {Op::kPool, make_attrs<PoolAttrs>(pool)},
                                  {Op::kDequantizeLinear, linear_attrs(Op::kDequantizeLinear)}}) {
    const auto made = b.op(op, attrs, op == Op::kPool ? std::vector<ValueId>{y} : std::vector<ValueId>{y, scale, zero});
    ASSERT_TRUE(made.ok()) << made.error().message();
    y = *made;
  }
  b.graph().outputs = {y};
  convert::type_integers(module);
  convert::make_int8(module);
  const Op expected[] = {Op::kQuantize, Op::kPool, Op::kDequantize};
  EXPECT_TRUE(std::ranges::equal(module.graphs[0].nodes, expected, {}, &Node::op));
  const ValueType& t = module.graphs[0].value(module.graphs[0].nodes[1].outputs[0]).type;
  EXPECT_EQ(t.dtype, DType::kI8);
  EXPECT_EQ(t.quant->zero_point(), -121);
}

TEST(Int8Values, GraphInputsAndIntegersThatAreReadStayUint8) {
  Module module;
  module.graphs.emplace_back().name = "main";
  module.methods.push_back({.name = "main", .graph = 0});
  Builder b(module, 0);
  ValueType u8 = ValueType::tensor(DType::kU8, Shape{4});
  u8.quant = test::per_tensor(0.5f, 10);
  const ValueId x = b.input("x", u8);
  const auto sum = b.op_as(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, x}, u8);
  ASSERT_TRUE(sum.ok());
  CastAttrs to;
  to.to = DType::kI32;
  const auto integers = b.op(Op::kCast, make_attrs<CastAttrs>(to), {*sum});
  ASSERT_TRUE(integers.ok());
  b.graph().inputs = {x};
  b.graph().outputs = {*integers, *sum};
  convert::type_integers(module);
  convert::make_int8(module);
  const Graph& g = module.graphs[0];
  EXPECT_EQ(g.inputs, std::vector<ValueId>{x});
  EXPECT_EQ(g.outputs, (std::vector<ValueId>{*integers, *sum}));
  ASSERT_EQ(g.nodes.size(), 4u);
  const Op expected[] = {Op::kQuantize, Op::kBinary, Op::kQuantize, Op::kCast};
  EXPECT_TRUE(std::ranges::equal(g.nodes, expected, {}, &Node::op));
  const ValueType& between = g.value(g.nodes[1].outputs[0]).type;
  EXPECT_EQ(between.dtype, DType::kI8);
  EXPECT_EQ(between.quant->zero_point(), -118);
  EXPECT_EQ(g.value(*sum).type.dtype, DType::kU8);
  EXPECT_EQ(g.nodes[3].inputs[0], *sum);
}

TEST(Int8Values, ConstantsMoveWithTheirZeroPoint) {
  Module module;
  module.graphs.emplace_back().name = "main";
  Builder b(module, 0);
  ValueType u8 = ValueType::tensor(DType::kU8, Shape{3});
  u8.quant = test::per_tensor(0.5f, 128);
  const ValueId x = b.input("x", u8);
  const ValueId c = b.constant("c", test::quantized(DType::kU8, {3}, {0, 128, 255}, 0.5f, 128));
  const auto sum = b.op_as(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {x, c}, u8);
  ASSERT_TRUE(sum.ok());
  b.graph().inputs = {x};
  b.graph().outputs = {*sum};
  convert::type_integers(module);
  convert::make_int8(module);
  const Graph& g = module.graphs[0];
  const auto add = std::ranges::find(g.nodes, Op::kBinary, &Node::op);
  ASSERT_NE(add, g.nodes.end());
  const Value& moved = g.value(add->inputs[1]);
  ASSERT_TRUE(moved.constant);
  EXPECT_EQ(test::values(*moved.constant), (std::vector<double>{-128, 0, 127}));
  EXPECT_EQ(moved.type.quant->zero_point(), 0);
}

/// A convolution of uint8 values with uint8 weights of that zero point.
std::shared_ptr<Module> uint8_conv(int32_t weight_zero) {
  Tensor image = test::random_tensor(DType::kU8, {1, 3, 6, 5}, 0, 255, 1);
  image.set_quant(test::per_tensor(0.02f, 120));
  Tensor filter = test::random_tensor(DType::kU8, {4, 3, 2, 2}, 0, 255, 2);
  filter.set_quant(test::per_tensor(0.01f, weight_zero));
  ValueType y = ValueType::tensor(DType::kU8);
  y.quant = test::per_tensor(0.1f, 131);
  return test::one_node({"conv",
                         Op::kConv,
                         make_attrs<ConvAttrs>(),
                         {image, filter, test::random_tensor(DType::kI32, {4}, -500, 500, 3)},
                         {},
                         {y}});
}

TEST(Int8Values, Uint8WeightsWithZeroPointsStayUint8) {
  Tensor image = test::random_tensor(DType::kU8, {1, 3, 6, 5}, 0, 255, 1);
  image.set_quant(test::per_tensor(0.02f, 120));
  for (const auto& [zero, kept] : {std::pair{100, DType::kU8}, {128, DType::kI8}}) {
    const auto back = test::expect_same_written(uint8_conv(zero), {image}, "pte");
    ASSERT_TRUE(back);
    const Graph& graph = module_of(*back).graphs[0];
    const auto conv = std::ranges::find(graph.nodes, Op::kConv, &Node::op);
    ASSERT_NE(conv, graph.nodes.end());
    EXPECT_EQ(conv->origin, "XNNConv2d");
    for (const ValueId id : {conv->inputs[0], conv->inputs[1], conv->outputs[0]}) {
      EXPECT_EQ(graph.value(id).type.dtype, kept);
      EXPECT_TRUE(graph.value(id).type.quant);
    }
  }
}

/// An input of uint8, transposed and dequantized, its DequantizeLinear doubled with another scale by `second`.
Module transposed_input(float second) {
  Module module;
  module.graphs.emplace_back().name = "main";
  module.methods.push_back({.name = "main", .graph = 0});
  Builder b(module, 0);
  const ValueId x = b.input("x", ValueType::tensor(DType::kU8, Shape{1, 2, 3, 4}));
  const auto turned = b.op(Op::kTranspose, make_attrs<TransposeAttrs>(std::vector<int64_t>{0, 3, 1, 2}), {x});
  EXPECT_TRUE(turned.ok());
  const ValueId zero = b.constant("", test::tensor(DType::kU8, Shape{}, {7}));
  for (const float scale : {0.5f, second}) {
    const auto real =
        b.op(Op::kDequantizeLinear, linear_attrs(Op::kDequantizeLinear), {*turned, b.f32_scalar(scale), zero});
    EXPECT_TRUE(real.ok());
    b.graph().outputs.push_back(*real);
  }
  b.graph().inputs = {x};
  convert::type_integers(module);
  return module;
}

TEST(Int8Values, InputsThatAreReadWithOneScaleHaveIt) {
  const Module same = transposed_input(0.5f), several = transposed_input(0.25f);
  const Graph &typed = same.graphs[0], &untyped = several.graphs[0];
  const Value& x = typed.value(typed.inputs[0]);
  EXPECT_EQ(x.name, "x");
  ASSERT_TRUE(x.type.quant);
  EXPECT_EQ(x.type.quant->zero_point(), 7);
  const Op expected[] = {Op::kTranspose, Op::kDequantize, Op::kDequantize};
  EXPECT_TRUE(std::ranges::equal(typed.nodes, expected, {}, &Node::op));
  EXPECT_FALSE(untyped.value(untyped.inputs[0]).type.quant);
}

TEST(Int8Values, WhatOnlyBecomesRealStaysUint8) {
  Module module;
  module.graphs.emplace_back().name = "main";
  Builder b(module, 0);
  ValueType u8 = ValueType::tensor(DType::kU8, Shape{4});
  u8.quant = test::per_tensor(0.5f, 10);
  const ValueId x = b.input("x", u8);
  const auto real = b.op(Op::kDequantize, make_attrs<NoAttrs>(), {x});
  ASSERT_TRUE(real.ok());
  b.graph().inputs = {x};
  b.graph().outputs = {*real};
  convert::make_int8(module);
  ASSERT_EQ(module.graphs[0].nodes.size(), 1u);
  EXPECT_EQ(module.graphs[0].nodes[0].inputs[0], x);
}

}  // namespace
}  // namespace smelt
