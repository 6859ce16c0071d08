#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/resize/resize.h"
#include "passes/passes.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// Gives the graph channels-last images. Checks that this changes no result for `in` by more than `tolerance`.
void turn(const std::shared_ptr<Module>& module, const Tensor& in, double tolerance = 1e-6) {
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), in));
  channels_last(module->graphs[0]);
  EXPECT_TRUE(verify(*module).ok());
  test::expect_near(test::run_on_reference(module, in), before, tolerance, tolerance);
}

/// The last dimension that a Resize to height x width gives behind a convolution of x [1, 3, 6, 5]; `read`: a Tanh
/// reads it. Checks that the layout changes no result.
int64_t last_dimension_of_resize(int64_t height, int64_t width, bool read) {
  auto module = test::module_of_one_graph();
  test::Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 3, 6, 5}));
  ConvAttrs conv;
  conv.layout = Layout::kChannelsFirst;
  const ValueId y = f.op(Op::kConv, make_attrs<ConvAttrs>(conv), {x, f.weights({8, 3, 1, 1})});
  ResizeAttrs linear;
  linear.mode = ResizeAttrs::Mode::kLinear;
  ValueId z =
      f.op(Op::kResize, make_attrs<ResizeAttrs>(linear), {y, kNoValue, kNoValue, f.b.i64({1, 8, height, width})});
  if (read) z = f.unary(Unary::kTanh, z);
  Graph& graph = module->graphs[0];
  graph.outputs = {z};
  const Tensor in = test::random_tensor(DType::kF32, {1, 3, 6, 5}, -1, 1, 1);
  turn(module, in);
  for (const Node& n : graph.nodes)
    if (n.op == Op::kResize) return graph.value(n.outputs[0]).type.shape.back();
  return -1;
}

/// Tokens [1, 30, 8] through a depthwise convolution of an image of 6 x 5 pixels.
ValueId convolved_tokens(test::Forms& f, ValueId tokens, bool by_squeeze) {
  ConvAttrs conv;
  conv.layout = Layout::kChannelsFirst;
  conv.groups = 8;
  conv.pads = by_squeeze ? std::vector<int64_t>{0, 1, 0, 1} : std::vector<int64_t>{1, 1, 1, 1};
  const ValueId turned = f.transpose(tokens, {0, 2, 1});
  const ValueId image = by_squeeze ? f.op(Op::kUnsqueeze, make_attrs<NoAttrs>(), {turned, f.b.i64({2})})
                                   : f.reshape(turned, {0, 8, 6, 5});
  const ValueId y = f.op(Op::kConv, make_attrs<ConvAttrs>(conv), {image, f.weights({8, 1, by_squeeze ? 1 : 3, 3})});
  const ValueId row =
      by_squeeze ? f.op(Op::kSqueeze, make_attrs<NoAttrs>(), {y, f.b.i64({2})}) : f.reshape(y, {0, 8, -1});
  return f.transpose(row, {0, 2, 1});
}

TEST(ChannelsLast, TokensBecomeAnImageWithoutATranspose) {
  for (const bool by_squeeze : {false, true}) {
    auto module = test::module_of_one_graph();
    test::Forms f{Builder(*module, 0)};
    const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 30, 8}));
    Graph& graph = module->graphs[0];
    graph.outputs = {convolved_tokens(f, x, by_squeeze)};
    const Tensor in = test::random_tensor(DType::kF32, {1, 30, 8}, -1, 1, 1);
    turn(module, in);
    for (const Node& n : graph.nodes) {
      if (n.op != Op::kTranspose) continue;
      EXPECT_EQ(static_cast<const TransposeAttrs&>(*n.attrs).perm, (std::vector<int64_t>{0, 1, 2}));
    }
  }
}

/// Number of Transposes that move elements, of a convolution of channels-last images x [1, 6, 5, 8], a Transpose, ReLU
/// and a sum on channels-first ones, and what reads these: a Transpose back and a convolution, or the graph's output.
int transposes_between(bool convolved) {
  auto module = test::module_of_one_graph();
  test::Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 6, 5, 8}));
  ConvAttrs conv;
  conv.layout = Layout::kChannelsLast;
  const auto convolve = [&](ValueId v) {
    return f.op(Op::kConv, make_attrs<ConvAttrs>(conv), {v, f.weights({8, 8, 1, 1})});
  };
  const ValueId first = f.transpose(convolve(x), {0, 3, 1, 2});
  ValueId y = f.binary(Binary::kAdd, f.unary(Unary::kRelu, first), first);
  if (convolved) y = convolve(f.transpose(y, {0, 2, 3, 1}));
  Graph& graph = module->graphs[0];
  graph.outputs = {y};
  const Tensor in = test::random_tensor(DType::kF32, {1, 6, 5, 8}, -1, 1, 1);
  turn(module, in);
  return static_cast<int>(std::ranges::count_if(graph.nodes, [](const Node& n) {
    return n.op == Op::kTranspose &&
           static_cast<const TransposeAttrs&>(*n.attrs).perm != std::vector<int64_t>{0, 1, 2, 3};
  }));
}

TEST(ChannelsLast, NodesBetweenTransposesNeedNone) {
  EXPECT_EQ(transposes_between(true), 0);
  EXPECT_EQ(transposes_between(false), 1);
}

// Signals [1, 1, 20, 16] of bytes that are turned, cut and looked up as [1, 16, 20], as converters to TFLite spell it.
TEST(ChannelsLast, QuantizedSignalsBetweenTransposesNeedNone) {
  auto module = test::module_of_one_graph();
  test::Forms f{Builder(*module, 0)};
  const auto quant = std::make_shared<Quantization>();
  quant->scales = {0.5f};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kI8, Shape{1, 1, 20, 16}, quant));
  ValueId y = f.reshape(f.transpose(x, {0, 3, 1, 2}), {1, 16, 20});
  y = f.op(Op::kSliceSize, make_attrs<NoAttrs>(), {y, f.b.i64({0, 3, 5}), f.b.i64({1, 8, 15})});
  std::vector<ValueId> find{y};
  for (const Shape& shape : {Shape{256}, Shape{256}, Shape{}}) {
    Tensor t(DType::kI8, shape);
    for (int64_t i = 0; i < t.elements(); ++i) set_int(t, i, find.size() == 1 ? i - 128 : i * 7);
    t.set_quant(quant);
    find.push_back(f.b.constant("", t));
  }
  y = f.reshape(f.op(Op::kTableFind, make_attrs<NoAttrs>(), find), {1, 8, 1, 15});
  Graph& graph = module->graphs[0];
  graph.outputs = {f.transpose(y, {0, 2, 3, 1})};
  Tensor in = test::random_tensor(DType::kI8, {1, 1, 20, 16}, -128, 127, 1);
  in.set_quant(quant);
  turn(module, in, 0);
  for (const Node& n : graph.nodes)
    if (n.op == Op::kTranspose) {
      EXPECT_EQ(static_cast<const TransposeAttrs&>(*n.attrs).perm, (std::vector<int64_t>{0, 1, 2, 3}));
    }
}

TEST(ChannelsLast, TransposedConvolutionsOfFewFilters) {
  auto module = test::module_of_one_graph();
  test::Forms f{Builder(*module, 0)};
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 12, 6, 5}));
  ConvTransposeAttrs conv;
  conv.filter = FilterLayout::kIOS;
  conv.layout = Layout::kChannelsFirst;
  conv.strides = {2, 2};
  Graph& graph = module->graphs[0];
  graph.outputs = {f.op(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(conv), {x, f.weights({12, 2, 4, 4})})};
  const Tensor in = test::random_tensor(DType::kF32, {1, 12, 6, 5}, -1, 1, 1);
  turn(module, in);
  for (const Node& n : graph.nodes)
    if (n.op == Op::kConvTranspose) {
      EXPECT_EQ(static_cast<const ConvTransposeAttrs&>(*n.attrs).layout, Layout::kChannelsLast);
    }
}

/// Few filters: turned if their windows are deep.
TEST(ChannelsLast, ConvolutionsOfFewFilters) {
  for (const int64_t kernel : {1, 3}) {
    auto module = test::module_of_one_graph();
    test::Forms f{Builder(*module, 0)};
    const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 12, 6, 5}));
    ConvAttrs conv;
    conv.layout = Layout::kChannelsFirst;
    Graph& graph = module->graphs[0];
    graph.outputs = {f.op(Op::kConv, make_attrs<ConvAttrs>(conv), {x, f.weights({2, 12, kernel, kernel})})};
    const Tensor in = test::random_tensor(DType::kF32, {1, 12, 6, 5}, -1, 1, 1);
    turn(module, in);
    for (const Node& n : graph.nodes)
      if (n.op == Op::kConv) {
        EXPECT_EQ(static_cast<const ConvAttrs&>(*n.attrs).layout,
                  kernel == 1 ? Layout::kChannelsFirst : Layout::kChannelsLast);
      }
  }
}

TEST(ChannelsLast, AnImageThatGrowsIntoTheOutputIsTransposedBefore) {
  EXPECT_EQ(last_dimension_of_resize(12, 20, false), 20);
  EXPECT_EQ(last_dimension_of_resize(3, 2, false), 8);  // a smaller one behind
  EXPECT_EQ(last_dimension_of_resize(12, 20, true), 8);
}

}  // namespace
}  // namespace smelt
