// What TFLite's formula rounds at run time, as the ONNX writer spells it, becomes part of the product again.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "passes/passes.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

Tensor int8_weights(const Shape& shape, int64_t channels) {
  Tensor t = test::random_tensor(DType::kI8, shape, -127, 127, 5);
  Quantization q;
  if (channels > 1) q.kind = Quantization::Kind::kPerAxis;
  for (int64_t i = 0; i < channels; ++i) q.scales.push_back(0.01f + 0.001f * static_cast<float>(i));
  q.zero_points.assign(q.scales.size(), 0);
  t.set_quant(std::make_shared<const Quantization>(std::move(q)));
  return t;
}

std::shared_ptr<Module> product(bool conv, bool asymmetric) {
  test::OpCase c{.label = conv ? "Conv" : "MatMul", .op = conv ? Op::kConv : Op::kMatMul};
  if (conv) {
    ConvAttrs a;
    a.dynamic_quant = true;
    a.asymmetric_inputs = asymmetric;
    c.attrs = make_attrs<ConvAttrs>(a);
    c.inputs = {test::random_tensor(DType::kF32, {2, 3, 6, 5}, -1, 3, 1),
                int8_weights({4, 3, 3, 3}, asymmetric ? 4 : 1)};
  } else {
    MatMulAttrs a;
    a.transpose_b = a.dynamic_quant = true;
    a.asymmetric_inputs = asymmetric;
    c.attrs = make_attrs<MatMulAttrs>(a);
    c.inputs = {test::random_tensor(DType::kF32, {2, 3, 24}, -1, 3, 1), int8_weights({7, 24}, 7)};
  }
  return test::one_node(std::move(c));
}

/// The graph of the module that the ONNX writer makes of a product, after recompose().
Graph recomposed(bool conv, bool asymmetric, float replace = 0, float by = 0) {
  const auto back = test::rewritten(ModelAccess::make(product(conv, asymmetric)), "onnx");
  EXPECT_TRUE(back.ok()) << (back.ok() ? "" : back.error().message());
  if (!back.ok()) return {};
  Graph graph = module_of(*back).graphs[0];
  for (Value& v : graph.values) {
    if (!v.constant || v.constant->dtype() != DType::kF32 || v.constant->rank() != 0) continue;
    if (*v.constant->data<float>() != replace) continue;
    Tensor number(DType::kF32, Shape{});
    *number.data<float>() = by;
    v.constant = std::make_shared<const Tensor>(std::move(number));
  }
  recompose(graph);
  return graph;
}

template <class A>
void expect_one(const Graph& graph, Op op, bool asymmetric) {
  const auto is_view = [](const Node& n) { return (op_info(n.op).flags & kView) != 0; };
  ASSERT_EQ(static_cast<size_t>(std::ranges::count_if(graph.nodes, is_view)) + 1, graph.nodes.size());
  const Node& node = *std::ranges::find_if_not(graph.nodes, is_view);
  ASSERT_EQ(node.op, op);
  const auto& a = static_cast<const A&>(*node.attrs);
  EXPECT_TRUE(a.dynamic_quant);
  EXPECT_EQ(a.asymmetric_inputs, asymmetric);
  EXPECT_EQ(graph.value(node.inputs[1]).type.dtype, DType::kI8);
}

TEST(RunTimeQuantization, BecomesPartOfTheProduct) {
  for (const bool asymmetric : {false, true}) {
    expect_one<MatMulAttrs>(recomposed(false, asymmetric), Op::kMatMul, asymmetric);
    expect_one<ConvAttrs>(recomposed(true, asymmetric), Op::kConv, asymmetric);
  }
}

TEST(RunTimeQuantization, KeepsResults) {
  for (const bool conv : {false, true})
    for (const bool asymmetric : {false, true}) {
      const auto module = product(conv, asymmetric);
      const Shape& shape = module->graphs[0].value(module->graphs[0].inputs[0]).type.shape;
      SCOPED_TRACE(testing::Message() << conv << asymmetric);
      // Back as TFLite: the conversion fuses first.
      const auto there = test::rewritten(ModelAccess::make(module), "onnx");
      ASSERT_TRUE(there.ok()) << there.error().message();
      auto read = std::make_shared<Module>(module_of(*there));
      test::expect_same_written(read, {test::random_tensor(DType::kF32, shape, -2, 5, 3)}, "tflite");
    }
}

/// A product or convolution of what a Quantize rounds by slices of the last `dims` dimensions, as programs have them.
std::shared_ptr<Module> behind_quantize(bool conv, int dims) {
  auto module = product(conv, true);
  Graph& graph = module->graphs[0];
  Node& product = graph.nodes[0];
  ValueType rounded = graph.value(graph.inputs[0]).type;
  rounded.dtype = DType::kI8;
  Quantization q;
  q.kind = Quantization::Kind::kPerToken;
  q.axis = dims;
  rounded.quant = std::make_shared<const Quantization>(std::move(q));
  if (conv) {
    ConvAttrs a = static_cast<const ConvAttrs&>(*product.attrs);
    a.dynamic_quant = a.asymmetric_inputs = false;
    product.attrs = make_attrs<ConvAttrs>(a);
  } else {
    MatMulAttrs a = static_cast<const MatMulAttrs&>(*product.attrs);
    a.dynamic_quant = a.asymmetric_inputs = false;
    product.attrs = make_attrs<MatMulAttrs>(a);
  }
  Node quantize = product;
  quantize.op = Op::kQuantize;
  quantize.attrs = make_attrs<NoAttrs>();
  quantize.inputs = {graph.inputs[0]};
  quantize.outputs = {graph.add_value({.name = "", .type = rounded})};
  product.inputs[0] = quantize.outputs[0];
  graph.nodes.insert(graph.nodes.begin(), quantize);
  return module;
}

/// The graph of that module as ONNX, where XNNPACK's rule is a formula, before and behind the fusion.
Graph fused_of_onnx(bool conv, int dims) {
  const auto back = test::rewritten(ModelAccess::make(behind_quantize(conv, dims)), "onnx");
  EXPECT_TRUE(back.ok());
  if (!back.ok()) return {};
  Graph read = module_of(*back).graphs[0];
  recompose(read);
  EXPECT_GT(read.nodes.size(), 10U);
  fuse_xnnpack_rows(read);
  return read;
}

TEST(RunTimeQuantization, XnnpacksRuleOfOnnx) { expect_one<MatMulAttrs>(fused_of_onnx(false, 1), Op::kMatMul, true); }

TEST(RunTimeQuantization, XnnpacksRuleOfImages) {
  const Graph image = fused_of_onnx(true, 3);
  const auto quantize = std::ranges::find(image.nodes, Op::kQuantize, &Node::op);
  ASSERT_NE(quantize, image.nodes.end());
  const QuantPtr& q = image.value(quantize->outputs[0]).type.quant;
  EXPECT_EQ(q->kind, Quantization::Kind::kPerToken);
  EXPECT_EQ(q->axis, 3);
  const auto conv = std::ranges::find(image.nodes, Op::kConv, &Node::op);
  ASSERT_NE(conv, image.nodes.end());
  EXPECT_EQ(conv->inputs[0], quantize->outputs[0]);
  EXPECT_EQ(image.value(conv->inputs[1]).type.dtype, DType::kI8);
  // Planes that are rounded by themselves are none.
  const Graph planes = fused_of_onnx(true, 2);
  EXPECT_EQ(std::ranges::find(planes.nodes, Op::kQuantize, &Node::op), planes.nodes.end());
}

TEST(RunTimeQuantization, ProgramsRoundImagesInXnnpack) {
  const auto module = behind_quantize(true, 3);
  const Shape shape = module->graphs[0].value(module->graphs[0].inputs[0]).type.shape;
  const auto back = test::expect_same_written(module, {test::random_tensor(DType::kF32, shape, -2, 5, 3)}, "pte");
  ASSERT_TRUE(back);
  const auto& nodes = module_of(*back).graphs[0].nodes;
  EXPECT_TRUE(std::ranges::any_of(nodes, [](const Node& n) { return n.origin == "XNNConvert"; }));
  EXPECT_TRUE(std::ranges::any_of(nodes, [](const Node& n) { return n.origin == "XNNConv2d"; }));
}

TEST(RunTimeQuantization, OtherFormulasStay) {
  for (const auto& [number, other] : {std::pair{255.0f, 254.0f}, {-128.0f, -127.0f}, {0.5f, 0.25f}}) {
    const Graph graph = recomposed(false, true, number, other);
    const auto product = std::ranges::find(graph.nodes, Op::kMatMul, &Node::op);
    ASSERT_NE(product, graph.nodes.end());
    EXPECT_FALSE(static_cast<const MatMulAttrs&>(*product->attrs).dynamic_quant) << number;
  }
}

}  // namespace
}  // namespace smelt
