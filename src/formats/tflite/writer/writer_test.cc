// Models of a node, written as TFLite, read back and run: the results are those of the model itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "convert/convert.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/pool/pool.h"
#include "ops/resize/resize.h"
#include "ops/sort/sort.h"
#include "runtime/model_access.h"
#include "tensor/numeric.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

Tensor steps(DType dtype, const Shape& shape, int64_t range) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.elements(); ++i) set_double(t, i, static_cast<double>(i * 7 % range - range / 2));
  return t;
}

QuantPtr scaled(std::vector<float> scales, int32_t zero_point = 0) {
  Quantization q;
  if (scales.size() > 1) q.kind = Quantization::Kind::kPerAxis;
  q.zero_points = std::vector<int32_t>(scales.size() > 1 ? 0 : 1, zero_point);
  q.scales = std::move(scales);
  return std::make_shared<const Quantization>(std::move(q));
}

/// A module of one node: input 0 is x, the others are constants.
std::shared_ptr<Module> one_node(Op op, AttrsPtr attrs, const Tensor& x, const std::vector<Tensor>& constants,
                                 const ValueType& result = {}) {
  test::OpCase c{op_info(op).name, op, std::move(attrs), {x}, {}, {result}};
  c.inputs.insert(c.inputs.end(), constants.begin(), constants.end());
  return test::one_node(std::move(c));
}

/// Checks that the module gives the same results as TFLite, floats within 1e-5, and returns the graph of the file.
Graph expect_same_as_tflite(const std::shared_ptr<Module>& module, const Tensor& x) {
  const auto back = test::expect_same_written(module, {x}, "tflite");
  if (!back) return {};
  EXPECT_EQ(back->format(), "tflite");
  return module_of(*back).graphs[0];
}

/// A file that was read with zero points beyond their type has no written form.
TEST(TfliteWriter, RefusesZeroPointsBeyondTheType) {
  Tensor x = steps(DType::kI8, {4}, 100);
  x.set_quant(scaled({0.5f}, 65553));
  const auto module = one_node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), x, {},
                               ValueType::tensor(DType::kI8, {4}, scaled({0.5f})));
  for (const char* format : {"tflite", "onnx", "pte"}) {
    const auto file = test::written(ModelAccess::make(module), format);
    ASSERT_FALSE(file.ok()) << format;
    EXPECT_NE(file.error().message().find("zero point 65553 of int8"), std::string::npos) << file.error().message();
  }
}

/// A filter that is written in another order is not in the file a second time.
TEST(TfliteWriter, HoldsConstantsOnce) {
  ConvAttrs a;
  a.strides = {1, 1};
  a.pads = {1, 1, 1, 1};
  const Tensor x = steps(DType::kF32, {1, 32, 5, 5}, 29), filter = steps(DType::kF32, {64, 32, 3, 3}, 11);
  const auto file =
      test::written(ModelAccess::make(one_node(Op::kConv, make_attrs<ConvAttrs>(a), x, {filter})), "tflite");
  ASSERT_TRUE(file.ok()) << file.error().message();
  ASSERT_EQ(file->files.size(), 1);
  EXPECT_LT(file->files[0].bytes.size(), filter.bytes() + 10'000);
}

/// The largest integers as an end stand for the last entry in the direction of the step.
TEST(TfliteWriter, SlicesBackwardsToTheFirstEntry) {
  const Tensor x = steps(DType::kF32, {2, 5}, 29);
  for (const int64_t end : {int64_t{INT32_MAX}, INT64_MAX})
    for (const char* format : {"tflite", "pte", "onnx"}) {
      const auto m = one_node(Op::kSlice, make_attrs<NoAttrs>(), x,
                              {test::i64({4}), test::i64({end}), test::i64({1}), test::i64({-2})});
      EXPECT_TRUE(test::expect_same_written(m, {x}, format)) << format << ", end " << end;
    }
}

TEST(TfliteWriter, SmallestOfIntegers) {
  TopKAttrs a;
  a.largest = false;
  const std::pair<DType, double> types[] = {{DType::kI8, -128},         {DType::kU8, 0},
                                            {DType::kI16, -32768},      {DType::kU16, 0},
                                            {DType::kI32, -2147483648}, {DType::kU32, 0}};
  for (const auto& [dtype, lowest] : types) {
    const Tensor x = test::tensor(dtype, Shape{5}, {100, 3, lowest, 2, 5});
    test::OpCase c{"smallest", Op::kTopK, make_attrs<TopKAttrs>(a), {x, test::i64({3})}};
    c.outputs.resize(2);
    EXPECT_TRUE(test::expect_same_written(test::one_node(c), {x}, "tflite")) << to_string(dtype);
  }
}

// uint64 is written as int64, which has another order from 2^63 on.
TEST(TfliteWriter, OrderOfUint64) {
  const Tensor x = test::tensor(DType::kU64, Shape{4}, {1, 0x1p63, 0x1p62, 0x1.8p63});
  const Tensor y = test::tensor(DType::kU64, Shape{4}, {0x1p63, 2, 0x1p62, 0x1.4p63});
  for (const Binary fn : {Binary::kAdd, Binary::kSub, Binary::kEqual, Binary::kLess, Binary::kLessEqual,
                          Binary::kGreater, Binary::kGreaterEqual, Binary::kMax, Binary::kMin}) {
    const test::OpCase c{"of_uint64", Op::kBinary, make_attrs<BinaryAttrs>(fn), {x, y}};
    EXPECT_TRUE(test::expect_same_written(test::one_node(c), {x}, "tflite")) << to_string(fn);
  }
}

TEST(TfliteWriter, ConvChannelsFirstWithPads) {
  ConvAttrs a;
  a.strides = {2, 1};
  a.pads = {1, 0, 0, 2};
  a.act = {ActKind::kRelu6};
  const Tensor x = steps(DType::kF32, {1, 3, 7, 6}, 29);
  const auto m = one_node(Op::kConv, make_attrs<ConvAttrs>(a), x,
                          {steps(DType::kF32, {4, 3, 3, 3}, 11), steps(DType::kF32, {4}, 5)});
  const Graph g = expect_same_as_tflite(m, x);
  EXPECT_EQ(std::ranges::count(g.nodes, Op::kTranspose, &Node::op), 2);
  EXPECT_EQ(std::ranges::count(g.nodes, Op::kPad, &Node::op), 1);
}

TEST(TfliteWriter, ConvOfOneDimension) {
  ConvAttrs a;
  a.strides = {1};
  a.pads = {1, 1};
  const Tensor x = steps(DType::kF32, {2, 3, 8}, 29);
  expect_same_as_tflite(one_node(Op::kConv, make_attrs<ConvAttrs>(a), x, {steps(DType::kF32, {4, 3, 3}, 11)}), x);
}

TEST(TfliteWriter, ConvTransposeWithPadsAndGroups) {
  const Tensor x = steps(DType::kF32, {1, 4, 5, 6}, 29), filter = steps(DType::kF32, {4, 3, 3, 2}, 11);
  for (const int64_t groups : {1, 2}) {
    ConvTransposeAttrs a;
    a.filter = FilterLayout::kIOS;
    a.strides = {2, 2};
    a.pads = {1, 0, 1, 1};
    a.output_padding = {1, 0};
    a.groups = groups;
    expect_same_as_tflite(one_node(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(a), x, {filter}), x);
  }
  ConvTransposeAttrs line;
  line.filter = FilterLayout::kIOS;
  line.strides = {2};
  line.pads = {1, 0};
  const Tensor row = steps(DType::kF32, {1, 2, 5}, 29);
  expect_same_as_tflite(
      one_node(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(line), row, {steps(DType::kF32, {2, 3, 4}, 11)}),
      row);
}

TEST(TfliteWriter, PoolsThatCountOrRoundUp) {
  const Tensor x = steps(DType::kF32, {1, 2, 6, 7}, 29);
  PoolAttrs a;
  a.kernel = {3, 3};
  a.strides = {2, 2};
  a.pads = {1, 1, 1, 1};
  for (const PoolKind kind : {PoolKind::kAverage, PoolKind::kMax})
    for (const bool counts : {false, true})
      for (const bool up : {false, true}) {
        a.kind = kind;
        a.count_include_pad = counts && kind == PoolKind::kAverage;
        a.ceil_mode = up;
        expect_same_as_tflite(one_node(Op::kPool, make_attrs<PoolAttrs>(a), x, {}), x);
      }
}

TEST(TfliteWriter, QuantizedConvStaysInteger) {
  ConvAttrs a;
  a.strides = {1, 1};
  Tensor x = steps(DType::kI8, {1, 2, 4, 4}, 200), filter = steps(DType::kI8, {3, 2, 3, 3}, 90);
  x.set_quant(scaled({0.05f}, 3));
  filter.set_quant(scaled({0.01f, 0.02f, 0.03f}));
  const ValueType result = ValueType::tensor(DType::kI8, Shape{1, 3, 2, 2}, scaled({0.4f}, -5));
  const Graph g = expect_same_as_tflite(one_node(Op::kConv, make_attrs<ConvAttrs>(a), x, {filter}, result), x);
  for (const Node& node : g.nodes) EXPECT_TRUE(node.op == Op::kConv || node.op == Op::kTranspose);
  for (const ValueId id : g.outputs) EXPECT_TRUE(g.value(id).type.quant);
}

/// uint8 weights whose zero point int8 kernels do not have stay uint8, as does all around them.
TEST(TfliteWriter, ShiftedUint8WeightsStay) {
  for (const int32_t zero_point : {128, 117}) {
    ConvAttrs a;
    Tensor x = test::random_tensor(DType::kU8, {1, 2, 4, 4}, 0, 255, 3);
    Tensor filter = test::random_tensor(DType::kU8, {3, 2, 3, 3}, 0, 255, 4);
    x.set_quant(scaled({0.05f}, 131));
    filter.set_quant(scaled({0.01f}, zero_point));
    const ValueType result = ValueType::tensor(DType::kU8, Shape{1, 3, 2, 2}, scaled({0.4f}, 120));
    const Graph g = expect_same_as_tflite(one_node(Op::kConv, make_attrs<ConvAttrs>(a), x, {filter}, result), x);
    const auto conv = std::ranges::find(g.nodes, Op::kConv, &Node::op);
    ASSERT_NE(conv, g.nodes.end());
    EXPECT_EQ(g.value(conv->inputs[1]).type.dtype, zero_point == 128 ? DType::kI8 : DType::kU8);
    EXPECT_EQ(std::ranges::count(g.nodes, Op::kDequantize, &Node::op), 0);
  }
}

TEST(TfliteWriter, InterpolatedIntegersAreCutOff) {
  ResizeAttrs a;
  a.mode = ResizeAttrs::Mode::kLinear;
  a.coord = ResizeAttrs::Coord::kHalfPixel;
  const Tensor x = test::random_tensor(DType::kU8, {1, 2, 5, 4}, 0, 255, 3), none;
  const Tensor sizes = test::i64({1, 2, 10, 8});
  expect_same_as_tflite(one_node(Op::kResize, make_attrs<ResizeAttrs>(a), x, {none, none, sizes}), x);
}

TEST(TfliteWriter, CubicResizeBecomesProducts) {
  ResizeAttrs a;
  a.mode = ResizeAttrs::Mode::kCubic;
  const Tensor x = steps(DType::kF32, {1, 2, 4, 5}, 29);
  Tensor none(DType::kF32, Shape{0}), scales(DType::kF32, Shape{4});
  const float by[] = {1, 1, 2, 1.6f};
  std::ranges::copy(by, scales.data<float>());
  expect_same_as_tflite(one_node(Op::kResize, make_attrs<ResizeAttrs>(a), x, {none, scales}), x);
}

TEST(TfliteWriter, IntegersOfLogisticFunctionsWithTheScaleOfLiteRt) {
  const Tensor x = steps(DType::kI8, {40}, 200);
  for (const Unary fn : {Unary::kSigmoid, Unary::kTanh})
    for (const bool own : {false, true}) {
      Tensor in = x;
      in.set_quant(scaled({0.05f}, 3));
      const QuantPtr to = own ? scaled({fn == Unary::kTanh ? 1.f / 128 : 1.f / 256}, fn == Unary::kTanh ? 0 : -128)
                              : scaled({0.02f}, 7);
      const auto module =
          one_node(Op::kUnary, make_attrs<UnaryAttrs>(fn), in, {}, ValueType::tensor(DType::kI8, Shape{40}, to));
      const Graph g = expect_same_as_tflite(module, in);
      const auto node = std::ranges::find_if(g.nodes, [](const Node& n) { return n.op == Op::kUnary; });
      ASSERT_NE(node, g.nodes.end());
      EXPECT_EQ(g.value(node->outputs[0]).type.dtype == DType::kI8, own) << to_string(fn);
    }
}

TEST(TfliteWriter, OneHotAxesThatLiteRtTakes) {
  const Tensor x = steps(DType::kI64, {2, 3}, 4);
  const Tensor values = steps(DType::kF32, {2}, 3);
  for (const auto& [axis, written] : {std::pair{-1, -1}, {-2, 1}, {-3, 0}, {1, 1}}) {
    OneHotAttrs a;
    a.axis = axis;
    const auto module = one_node(Op::kOneHot, make_attrs<OneHotAttrs>(a), x, {test::i64({4}), values});
    const Graph g = expect_same_as_tflite(module, x);
    const auto node = std::ranges::find_if(g.nodes, [](const Node& n) { return n.op == Op::kOneHot; });
    ASSERT_NE(node, g.nodes.end());
    EXPECT_EQ(static_cast<const OneHotAttrs&>(*node->attrs).axis, written) << axis;
  }
}

// Constants of float16 are float32 inside the file, but outputs keep their type.
TEST(TfliteWriter, ConstantOutputsOfFloat16) {
  const Tensor x = steps(DType::kF32, {4}, 9);
  const auto module = one_node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), x, {});
  module->graphs[0].outputs.push_back(Builder(*module, 0).constant("halves", steps(DType::kF16, {300}, 41)));
  expect_same_as_tflite(module, x);
}

TEST(TfliteWriter, ListsWhatItCannotWrite) {
  const Tensor x = steps(DType::kF32, {4}, 9);
  const auto written =
      test::written(ModelAccess::make(one_node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kDigamma), x, {})), "tflite");
  ASSERT_TRUE(written.ok());
  EXPECT_TRUE(written->files.empty());
  ASSERT_EQ(written->missing.size(), 1u);
  EXPECT_EQ(written->missing[0].op, "Unary");
  EXPECT_EQ(written->missing[0].type, "float32");
  EXPECT_NE(written->missing[0].place.find("TFLite has no form"), std::string::npos);
}

}  // namespace
}  // namespace smelt
