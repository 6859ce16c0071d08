#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/pool/pool.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "runtime/model_access.h"
#include "smelt/model.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {
using test::i64;
using test::random_tensor;

/// A graph in ONNX's form of quantized models: real operators between pairs of QuantizeLinear and DequantizeLinear.
class QdqGraph {
 public:
  ValueId node(Op op, AttrsPtr attrs, std::vector<ValueId> in) {
    const ValueId y = builder.value("", {});
    EXPECT_TRUE(builder.node_to(op, std::move(attrs), in, {y}).ok());
    return y;
  }
  ValueId dequantized(ValueId x, std::vector<float> scales, int64_t axis = 0) {
    QuantizeLinearAttrs a;
    a.axis = axis;
    a.to = DType::kF32;
    const Shape shape = scales.size() == 1 ? Shape{} : Shape{static_cast<int64_t>(scales.size())};
    return node(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(a),
                {x, builder.constant("", Tensor::from<float>(DType::kF32, shape, scales))});
  }
  /// QuantizeLinear to 8 bits and DequantizeLinear.
  ValueId rounded(ValueId x, float scale, uint8_t zero) {
    QuantizeLinearAttrs to, from;
    from.to = DType::kF32;
    const ValueId s = builder.constant("", Tensor::from<float>(DType::kF32, {}, std::vector{scale}));
    const ValueId z = builder.constant("", Tensor::from<uint8_t>(DType::kU8, {}, std::vector{zero}));
    return node(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(from),
                {node(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(to), {x, s, z}), s, z});
  }
  Result<std::vector<Datum>> run(BackendKind backend, const Tensor& x, std::string* kernels) {
    SessionOptions options;
    options.backend = backend;
    options.profile = true;
    SMELT_ASSIGN(Session session, Session::create(ModelAccess::make(module), options));
    auto result = session.run(std::vector<Datum>{x});
    for (const ProfileEntry& e : session.profile()) *kernels += e.kernel + " ";
    return result;
  }

  std::shared_ptr<Module> module = test::module_of_one_graph();
  Builder builder{*module, 0};
};

/// Kernels of the names run, and the results are within `near` of those in real numbers.
void check(QdqGraph& g, ValueId y, const Tensor& x, std::initializer_list<const char*> names, double near) {
  g.builder.graph().outputs = {y};
  ASSERT_TRUE(verify(*g.module).ok());
  std::string kernels, none;
  const auto expected = g.run(BackendKind::kReference, x, &none), got = g.run(BackendKind::kCpu, x, &kernels);
  ASSERT_TRUE(expected.ok() && got.ok());
  for (const char* want : names) EXPECT_NE(kernels.find(want), std::string::npos) << want << " not in " << kernels;
  const Tensor &e = expected->front().tensor, &t = got->front().tensor;
  ASSERT_EQ(e.shape(), t.shape());
  for (int64_t i = 0; i < e.elements(); ++i) ASSERT_NEAR(get_double(t, i), get_double(e, i), near) << "element " << i;
}

TEST(FuseQuantization, ConvolutionsSumsAndPools) {
  QdqGraph g;
  Builder& b = g.builder;
  const Tensor x = random_tensor(DType::kF32, {1, 3, 9, 9}, -1, 1, 1);
  const ValueId image = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
  ConvAttrs conv;
  conv.pads = {1, 1, 1, 1};
  const ValueId filter = g.dequantized(b.constant("", random_tensor(DType::kI8, {4, 3, 3, 3}, -127, 127, 2)),
                                       {0.01f, 0.02f, 0.01f, 0.03f});
  const ValueId bias = g.dequantized(b.constant("", random_tensor(DType::kI32, {4}, -2000, 2000, 3)),
                                     {0.0001f, 0.0002f, 0.0001f, 0.0003f});
  ValueId y = g.node(Op::kConv, make_attrs<ConvAttrs>(conv), {image, filter, bias});
  y = g.rounded(g.node(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kRelu), {y}), 0.05f, 0);
  PoolAttrs pool;
  pool.kernel = {3, 3};
  const ValueId most = g.rounded(g.node(Op::kPool, make_attrs<PoolAttrs>(pool), {y}), 0.05f, 0);
  pool.kind = PoolKind::kAverage;
  const ValueId mean = g.rounded(g.node(Op::kPool, make_attrs<PoolAttrs>(pool), {y}), 0.04f, 3);
  const ValueId sum = g.rounded(g.node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {most, mean}), 0.07f, 10);
  check(g, sum, x, {"conv_i8", "pool_i8", "avg_pool_i8", "binary_i8"}, 0.0701);
}

/// Quantizers that give each reader of a value a pair of its own, alike or not.
TEST(FuseQuantization, PairsOfEachReader) {
  for (const auto& [scale, kernel] : {std::pair{0.03f, "conv_i8"}, {0.02f, "conv_nhwc_f32"}}) {
    QdqGraph g;
    Builder& b = g.builder;
    const Tensor x = random_tensor(DType::kF32, {1, 8, 9, 9}, -1, 1, 1);
    const ValueId image = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
    const ValueId filter =
        g.dequantized(b.constant("", random_tensor(DType::kI8, {8, 8, 1, 1}, -127, 127, 2)), {0.01f});
    const ValueId y = g.node(Op::kConv, make_attrs<ConvAttrs>(), {image, filter});
    const ValueId left = g.rounded(y, 0.03f, 120), right = g.rounded(y, scale, 120);
    const ValueId sum = g.node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {left, right});
    check(g, g.rounded(sum, 0.07f, 100), x, {kernel}, 0.1);
  }
}

TEST(FuseQuantization, Means) {
  for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2, 3}, {3}, {1}}) {
    QdqGraph g;
    const Tensor x = random_tensor(DType::kF32, {2, 5, 9, 37}, -1, 1, 1);
    const ValueId a = g.rounded(g.builder.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
    ReduceAttrs mean;
    mean.fn = Reduction::kMean;
    const ValueId over = g.builder.constant("", i64(axes));
    const ValueId y = g.rounded(g.node(Op::kReduce, make_attrs<ReduceAttrs>(mean), {a, over}), 0.003f, 120);
    check(g, y, x, {"mean_i8"}, 0.00301);
  }
}

TEST(FuseQuantization, DynamicProducts) {
  QdqGraph g;
  const Tensor x = random_tensor(DType::kF32, {3, 6, 6}, -1, 1, 1);
  const ValueId a = g.rounded(g.builder.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
  const ValueId y = g.rounded(g.node(Op::kMatMul, make_attrs<MatMulAttrs>(), {a, a}), 0.03f, 120);
  check(g, y, x, {"matmul_i8_dynamic"}, 0.0301);
}

TEST(FuseQuantization, BatchNorms) {
  QdqGraph g;
  Builder& b = g.builder;
  const Tensor x = random_tensor(DType::kF32, {6, 40}, -1, 1, 1);
  const auto parameter = [&](double lo, uint32_t seed) {
    return b.constant("", random_tensor(DType::kF32, {40}, lo, 1.5, seed));
  };
  const ValueId a = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
  const ValueId y = g.node(Op::kBatchNorm, make_attrs<BatchNormAttrs>(),
                           {a, parameter(-1, 2), parameter(-1, 3), parameter(-1, 4), parameter(0.3, 5)});
  check(g, g.rounded(y, 0.02f, 120), x, {"batch_norm_i8"}, 1e-5);
}

TEST(FuseQuantization, SplitsAndBordersMoveIntegers) {
  for (const auto mode : {PadAttrs::Mode::kConstant, PadAttrs::Mode::kReflect}) {
    QdqGraph g;
    Builder& b = g.builder;
    const Tensor x = random_tensor(DType::kF32, {6, 40}, -1, 1, 1);
    const ValueId a = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
    SplitAttrs split;
    split.axis = 1;
    const ValueId first = b.value("", {}), second = b.value("", {});
    EXPECT_TRUE(
        b.node_to(Op::kSplit, make_attrs<SplitAttrs>(split), {a, b.constant("", test::i64({24, 16}))}, {first, second})
            .ok());
    const ValueId sixteen = g.rounded(second, 0.01f, 128), twenty_four = g.rounded(first, 0.01f, 128);
    PadAttrs pad;
    pad.mode = mode;
    const ValueId border = b.constant("", test::i64({0, 3, 0, 5}));
    const ValueId value = b.constant("", Tensor::from<float>(DType::kF32, {}, std::vector{0.0f}));
    const ValueId padded = g.rounded(g.node(Op::kPad, make_attrs<PadAttrs>(pad), {sixteen, border, value}), 0.01f, 128);
    const ValueId sum = g.node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {padded, twenty_four});
    check(g, g.rounded(sum, 0.01f, 128), x, {"strided_copy", "binary_i8"}, 1e-6);
    for (const Node& n : g.module->graphs[0].nodes)
      if (n.op == Op::kSplit || n.op == Op::kPad) {
        EXPECT_EQ(g.module->graphs[0].value(n.outputs[0]).type.dtype, DType::kF32);
      }
    fuse_quantization(g.module->graphs[0]);
    for (const Node& n : g.module->graphs[0].nodes)
      if (n.op == Op::kSplit || n.op == Op::kPad) {
        EXPECT_EQ(g.module->graphs[0].value(n.outputs[0]).type.dtype, DType::kU8);
      }
  }
}

TEST(FuseQuantization, GathersMoveIntegers) {
  QdqGraph g;
  const Tensor x = random_tensor(DType::kF32, {6, 40}, -1, 1, 1);
  const ValueId a = g.rounded(g.builder.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
  const ValueId rows = g.builder.constant("", test::i64({2, 0, 5}));
  const ValueId y = g.rounded(g.node(Op::kGather, make_attrs<GatherAttrs>(), {a, rows}), 0.01f, 128);
  check(g, y, x, {"gather"}, 1e-6);
  fuse_quantization(g.module->graphs[0]);
  const auto& nodes = g.module->graphs[0].nodes;
  const auto gather = std::ranges::find(nodes, Op::kGather, &Node::op);
  ASSERT_NE(gather, nodes.end());
  EXPECT_EQ(g.module->graphs[0].value(gather->inputs[0]).type.dtype, DType::kU8);
}

TEST(FuseQuantization, TransposedConvolutions) {
  QdqGraph g;
  Builder& b = g.builder;
  const Tensor x = random_tensor(DType::kF32, {1, 6, 6, 3}, -1, 1, 1);
  const ValueId image = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
  ConvTransposeAttrs conv;
  conv.strides = {2, 2};
  conv.layout = Layout::kChannelsLast;
  conv.filter = FilterLayout::kIOS;
  const ValueId filter = g.dequantized(b.constant("", random_tensor(DType::kI8, {3, 4, 3, 3}, -127, 127, 2)), {0.01f});
  const ValueId y =
      g.rounded(g.node(Op::kConvTranspose, make_attrs<ConvTransposeAttrs>(conv), {image, filter}), 0.1f, 100);
  check(g, y, x, {"conv_transpose_i8"}, 0.1001);
}

TEST(FuseQuantization, RealBias) {
  for (const float largest : {1.0f, 1e7f}) {  // the second does not fit the accumulators
    QdqGraph g;
    Builder& b = g.builder;
    const Tensor x = random_tensor(DType::kF32, {1, 3, 5, 5}, -1, 1, 1);
    const ValueId image = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
    const ValueId filter =
        g.dequantized(b.constant("", random_tensor(DType::kI8, {4, 3, 1, 1}, -127, 127, 2)), {0.01f});
    const ValueId bias = b.constant("", random_tensor(DType::kF32, {4}, -largest, largest, 3));
    const ValueId y = g.rounded(g.node(Op::kConv, make_attrs<ConvAttrs>(), {image, filter, bias}), 0.05f, 128);
    check(g, y, x, {largest == 1 ? "conv_i8" : "conv_nchw_f32"}, 0.0501);
  }
}

// Exporters write equal constants once, so that the bias of one convolution, in its units, is that of others too.
TEST(FuseQuantization, BiasInUnitsOfAnotherProduct) {
  QdqGraph g;
  Builder& b = g.builder;
  const Tensor x = random_tensor(DType::kF32, {1, 3, 5, 5}, -1, 1, 1);
  ValueId y = g.rounded(b.input("x", ValueType::tensor(DType::kF32, x.shape())), 0.01f, 128);
  const ValueId bias = g.dequantized(b.constant("", random_tensor(DType::kI32, {3}, -2000, 2000, 3)), {0.0001f});
  for (const float scale : {0.01f, 0.0007f}) {
    const ValueId filter =
        g.dequantized(b.constant("", random_tensor(DType::kI8, {3, 3, 1, 1}, -127, 127, 2)), {scale});
    y = g.rounded(g.node(Op::kConv, make_attrs<ConvAttrs>(), {y, filter, bias}), 0.05f, 128);
  }
  check(g, y, x, {"conv_i8 conv_i8"}, 0.0501);
}

}  // namespace
}  // namespace smelt
