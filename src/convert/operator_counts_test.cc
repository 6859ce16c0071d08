// Operators that a written file does without: shape arithmetic, activations, borders, transposes, slices, bit casts;
// and the order of those that it has.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

using test::f32;

/// A model of one input that a test builds node by node.
class TestModel {
 public:
  explicit TestModel(Tensor x) : fed_{Datum(std::move(x))} {
    const Tensor& first = fed_[0].tensor;
    x_ = b_.input("x", ValueType::tensor(first.dtype(), first.shape()));
  }

  Builder& builder() { return b_; }
  /// The contents of a further input, in their order.
  void feed(Tensor t) { fed_.emplace_back(std::move(t)); }
  ValueId x() const { return x_; }
  ValueId constant(Tensor t) { return b_.constant("", std::move(t)); }
  std::vector<ValueId> nodes(Op op, AttrsPtr attrs, std::vector<ValueId> inputs, int results) {
    auto made = b_.node(op, std::move(attrs), inputs, results);
    EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message());
    return made.ok() ? *made : std::vector<ValueId>(static_cast<size_t>(results), kNoValue);
  }
  ValueId node(Op op, AttrsPtr attrs, std::vector<ValueId> inputs) {
    return nodes(op, std::move(attrs), std::move(inputs), 1)[0];
  }
  /// A convolution of channels-last rows by one filter of `kernel` elements a channel.
  ValueId conv(ValueId x, int64_t channels, const Shape& kernel, ConvAttrs a = {}) {
    a.layout = Layout::kChannelsLast;
    a.filter = FilterLayout::kOSI;
    Shape filter{channels};
    for (const int64_t d : kernel) filter.push_back(d);
    filter.push_back(b_.type(x).shape.back());
    return node(Op::kConv, make_attrs<ConvAttrs>(a), {x, constant(f32(filter, 3))});
  }
  ValueId unary(Unary fn, ValueId x) { return node(Op::kUnary, make_attrs<UnaryAttrs>(fn), {x}); }

  /// Number of nodes by operator in the file that `writer` makes of it, which gives the same results.
  std::map<Op, int> written(std::vector<ValueId> outputs, std::string_view writer,
                            const convert::Options& options = {}) {
    b_.graph().outputs = std::move(outputs);
    const auto back = test::expect_same_written(module_, fed_, writer, options);
    std::map<Op, int> counts;
    if (!back) return counts;
    for (const Node& n : module_of(*back).graphs[0].nodes) ++counts[n.op];
    return counts;
  }

 private:
  std::shared_ptr<Module> module_ = test::module_of_one_graph();
  Builder b_{*module_, 0};
  std::vector<Datum> fed_;
  ValueId x_ = kNoValue;
};

TEST(OperatorCounts, WhatFollowsFromShapesOfStaticInputsIsConstant) {
  TestModel m(f32({2, 3, 4}));
  ValueId dims = m.node(Op::kShapeOf, make_attrs<ShapeOfAttrs>(), {m.x()});
  dims = m.node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {dims, m.builder().i64({2, 1, 1})});
  dims = m.node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kDiv), {dims, m.builder().i64({1, 1, 2})});
  const ValueId y = m.node(Op::kReshape, make_attrs<ReshapeAttrs>(), {m.x(), dims});
  EXPECT_EQ(m.written({y}, "tflite"), (std::map<Op, int>{{Op::kReshape, 1}}));
}

TEST(OperatorCounts, DeclaredSizesStayWhereTheyDoNotFollow) {
  // The length of the cache follows from an input, but the file declares it.
  TestModel m(f32({2, 4, 16}));
  GroupQueryAttrs a;
  a.num_heads = 2;
  a.kv_heads = 2;
  const ValueId lengths = m.constant(test::tensor(DType::kI32, {2}, {3, 3}));
  const ValueId total = m.builder().input("total", ValueType::tensor(DType::kI32, Shape{}));
  const auto y = m.nodes(Op::kGroupQueryAttention, make_attrs<GroupQueryAttrs>(a),
                         {m.x(), m.x(), m.x(), kNoValue, kNoValue, lengths, total}, 3);
  for (const size_t i : {1, 2}) m.builder().graph().value(y[i]).type.shape = Shape{2, 2, 4, 8};
  m.feed(test::tensor(DType::kI32, Shape{}, {4}));
  auto counts = m.written(y, "tflite");
  EXPECT_EQ(counts[Op::kMatMul], 2);
}

TEST(OperatorCounts, MatricesOfExpertsAreGathered) {
  for (const char* format : {"onnx", "tflite"})
    for (const bool transposed : {false, true}) {
      TestModel m(f32({3, 2, 6}));
      ExpertMatMulAttrs a;
      a.transposed = transposed;
      const ValueId ids = m.builder().input("ids", ValueType::tensor(DType::kI64, Shape{3, 2}));
      const Shape matrix = transposed ? Shape{5, 6} : Shape{6, 5};
      const ValueId y = m.node(Op::kExpertMatMul, make_attrs<ExpertMatMulAttrs>(a),
                               {m.x(), ids, m.constant(f32(matrix)), m.constant(f32(matrix))});
      m.feed(test::tensor(DType::kI64, {3, 2}, {1, 0, 0, 1, 1, 1}));
      auto counts = m.written({y}, format);
      EXPECT_EQ(counts[Op::kMatMul], 1) << format;
    }
}

TEST(OperatorCounts, ActivationsArePartOfTheirOperators) {
  TestModel m(f32({1, 6, 5, 3}));
  const ValueId y = m.unary(Unary::kRelu, m.conv(m.x(), 4, {3, 2}));
  EXPECT_EQ(m.written({y}, "tflite"), (std::map<Op, int>{{Op::kConv, 1}}));
}

TEST(OperatorCounts, BordersArePartOfConvolutions) {
  TestModel m(f32({1, 6, 5, 3}));
  const ValueId wide =
      m.node(Op::kPad, make_attrs<PadAttrs>(PadAttrs{}), {m.x(), m.builder().i64({0, 1, 0, 0, 0, 2, 1, 0})});
  auto counts = m.written({m.conv(wide, 4, {3, 2})}, "onnx");
  EXPECT_EQ(counts[Op::kConv], 1);
  EXPECT_EQ(counts[Op::kPad], 0);
}

TEST(OperatorCounts, ConvolutionsOfRowsStayChannelsFirst) {
  TestModel m(f32({2, 8, 3}));
  ValueId y = m.x();
  for (int i = 0; i < 2; ++i) {
    y = m.node(Op::kUnsqueeze, make_attrs<NoAttrs>(), {y, m.builder().i64({1})});
    y = m.conv(y, 4 + i, {1, 3});
    y = m.unary(Unary::kTanh, m.node(Op::kSqueeze, make_attrs<NoAttrs>(), {y, m.builder().i64({-3})}));
  }
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  y = m.node(Op::kReduce, make_attrs<ReduceAttrs>(mean), {y, m.builder().i64({1})});
  auto counts = m.written({y}, "onnx");
  EXPECT_EQ(counts[Op::kConv], 2);
  EXPECT_EQ(counts[Op::kTranspose], 1);
}

TEST(OperatorCounts, OneChannelOrPlaceIsNotTransposed) {
  TestModel m(f32({2, 6, 5, 1}));
  ReduceAttrs mean;
  mean.fn = Reduction::kMean;
  mean.keep_dims = true;
  ValueId y = m.conv(m.x(), 4, {3, 2});
  y = m.node(Op::kReduce, make_attrs<ReduceAttrs>(mean), {y, m.builder().i64({1, 2})});
  y = m.node(Op::kReshape, make_attrs<ReshapeAttrs>(), {y, m.builder().i64({2, 4})});
  EXPECT_EQ(m.written({y}, "onnx"), (std::map<Op, int>{{Op::kReshape, 2}, {Op::kConv, 1}, {Op::kPool, 1}}));
}

TEST(OperatorCounts, PartsComeFromOneCall) {
  TestModel m(f32({2, 9, 3}));
  SplitAttrs a;
  a.axis = 1;
  const auto parts = m.nodes(Op::kSplit, make_attrs<SplitAttrs>(a), {m.x(), m.builder().i64({2, 4, 3})}, 3);
  EXPECT_EQ(m.written({m.unary(Unary::kTanh, parts[0]), m.unary(Unary::kAbs, parts[2])}, "pte",
                      {.write = {.delegate = "none"}}),
            (std::map<Op, int>{{Op::kSplit, 1}, {Op::kUnary, 2}}));
}

TEST(OperatorCounts, RowsOfATableComeFromOneCall) {
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    TestModel m(test::tensor(dtype, {2, 3}, {4, 0, 1, 1, 2, 3}));
    GatherAttrs a;
    a.negative = false;
    const ValueId y = m.node(Op::kGather, make_attrs<GatherAttrs>(a), {m.constant(f32({5, 6})), m.x()});
    EXPECT_EQ(m.written({y}, "pte", {.write = {.delegate = "none"}}), (std::map<Op, int>{{Op::kGather, 1}}))
        << to_string(dtype);
  }
}

TEST(OperatorCounts, IntegersThatAreMovedAndJoinedKeepTheirParameters) {
  TestModel m(f32({1, 2, 3, 4}));
  const auto linear = [&](Op op, DType to, ValueId x) {
    QuantizeLinearAttrs a;
    a.to = to;
    return m.node(op, make_attrs<QuantizeLinearAttrs>(a),
                  {x, m.builder().f32_scalar(0.05f), m.constant(test::tensor(DType::kI8, Shape{}, {3}))});
  };
  ValueId y = linear(Op::kQuantizeLinear, DType::kI8, m.x());
  TransposeAttrs turned;
  turned.perm = {0, 2, 1, 3};
  const ValueId t = m.node(Op::kTranspose, make_attrs<TransposeAttrs>(turned), {y});
  const ValueId r = m.node(Op::kReshape, make_attrs<ReshapeAttrs>(), {y, m.builder().i64({1, 3, 2, 4})});
  AxisAttrs last;
  last.axis = -1;
  y = m.node(Op::kConcat, make_attrs<AxisAttrs>(last), {t, r});
  EXPECT_EQ(m.written({linear(Op::kDequantizeLinear, DType::kF32, y)}, "tflite"),
            (std::map<Op, int>{
                {Op::kQuantize, 1}, {Op::kTranspose, 1}, {Op::kReshape, 1}, {Op::kConcat, 1}, {Op::kDequantize, 1}}));
}

TEST(OperatorOrder, OperandsOfAFormulaAreWrittenFromLeftToRight) {
  for (const char* writer : {"onnx", "tflite", "pte"}) {
    test::OpRunner runner(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kHypot));
    runner.input(Datum(f32({2, 3}))).input(Datum(f32({2, 3}, 2)));
    const auto module = runner.module();
    ASSERT_TRUE(module.ok()) << module.error().message();
    const auto back = test::rewritten(ModelAccess::make(*module), writer, {.write = {.delegate = "none"}});
    ASSERT_TRUE(back.ok()) << back.error().message();
    const Graph& g = module_of(*back).graphs[0];
    std::vector<ValueId> squares;
    for (const Node& n : g.nodes)
      if (n.outputs.size() == 1 && std::ranges::find(g.inputs, n.inputs[0]) != g.inputs.end())
        squares.push_back(n.inputs[0]);
    EXPECT_EQ(squares, g.inputs) << writer;
  }
}

}  // namespace
}  // namespace smelt
