#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/recurrent/recurrent.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "smelt/model.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

struct Form {
  bool per_column = false, zeros = false, bias = false, scale_first = false;
};

/// Adds nodes whose results have no names.
struct NodeMaker {
  Builder& b;
  std::vector<ValueId> operator()(Op op, AttrsPtr attrs, std::vector<ValueId> in, size_t outputs = 1) const {
    std::vector<ValueId> out(outputs);
    for (ValueId& y : out) y = b.value("", {});
    EXPECT_TRUE(b.node_to(op, std::move(attrs), in, out).ok());
    return out;
  }
};

/// ONNX Runtime's dynamic quantization: DynamicQuantizeLinear, MatMulInteger, Cast, Mul and maybe Add.
std::shared_ptr<Module> product_of_integers(const Form& form) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const NodeMaker node{b};
  const Shape each = form.per_column ? Shape{5} : Shape{};
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2, 3, 8}));
  const auto q = node(Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(), {x}, 3);
  const ValueId scales = b.constant("s", test::random_tensor(DType::kF32, each, 0.01, 0.02, 3));
  std::vector<ValueId> in{q[0], b.constant("w", test::random_tensor(DType::kI8, {8, 5}, -127, 127, 2)), q[2]};
  if (form.zeros) in.push_back(b.constant("z", test::random_tensor(DType::kI8, each, -9, 9, 4)));
  const ValueId sums = node(Op::kMatMulInteger, make_attrs<MatMulAttrs>(), in)[0];
  const ValueId real = node(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {sums})[0];
  const ValueId scale = node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {q[1], scales})[0];
  const std::vector<ValueId> factors =
      form.scale_first ? std::vector<ValueId>{scale, real} : std::vector<ValueId>{real, scale};
  ValueId y = node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), factors)[0];
  if (form.bias)
    y = node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd),
             {b.constant("bias", test::random_tensor(DType::kF32, {5}, -1, 1, 5)), y})[0];
  b.graph().outputs = {y};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

TEST(IntegerProducts, BecomeOneProductOfQuantizedRows) {
  const Form forms[] = {{},
                        {.per_column = true},
                        {.per_column = true, .zeros = true},
                        {.bias = true},
                        {.per_column = true, .zeros = true, .bias = true, .scale_first = true}};
  const Tensor x = test::random_tensor(DType::kF32, {2, 3, 8}, -2, 3, 1);
  for (const Form& form : forms) {
    const auto module = product_of_integers(form);
    const auto fused = fuse_integer_products(module);
    std::vector<Op> ops;
    for (const Node& n : fused->graphs[0].nodes) ops.push_back(n.op);
    EXPECT_EQ(ops, (std::vector<Op>{Op::kDynamicQuantize, Op::kMatMul}));
    test::expect_near(test::run_on_reference(fused, x), test::values(test::run_on_reference(module, x)), 1e-5, 1e-5);
  }
}

/// ONNX Runtime's dynamic quantization of a convolution, after channels_last().
std::shared_ptr<Module> convolution_of_integers(bool per_channel) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const NodeMaker node{b};
  ConvAttrs conv;
  conv.layout = Layout::kChannelsLast;
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 6, 8}));
  const auto q = node(Op::kDynamicQuantize, make_attrs<DynamicQuantizeAttrs>(), {x}, 3);
  const ValueId w = b.constant("w", test::random_tensor(DType::kU8, {5, 8, 3}, 0, 255, 2));
  const ValueId zero = b.constant("z", test::random_tensor(DType::kU8, {}, 100, 150, 4));
  const ValueId sums = node(Op::kConvInteger, make_attrs<ConvAttrs>(conv), {q[0], w, q[2], zero})[0];
  const ValueId real = node(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {sums})[0];
  const Shape each = per_channel ? Shape{1, 1, 5} : Shape{};
  const ValueId scales = b.constant("s", test::random_tensor(DType::kF32, each, 0.01, 0.02, 3));
  const ValueId scale = node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {q[1], scales})[0];
  b.graph().outputs = {node(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {real, scale})[0]};
  EXPECT_TRUE(verify(*module).ok());
  return module;
}

TEST(IntegerProducts, ConvolutionsTakeScales) {
  const Tensor x = test::random_tensor(DType::kF32, {1, 6, 8}, -2, 3, 1);
  for (const bool per_channel : {false, true}) {
    const auto module = convolution_of_integers(per_channel);
    const auto fused = fuse_integer_products(module);
    std::vector<Op> ops;
    for (const Node& n : fused->graphs[0].nodes) ops.push_back(n.op);
    EXPECT_EQ(ops, (std::vector<Op>{Op::kDynamicQuantize, Op::kConvInteger}));
    test::expect_near(test::run_on_reference(fused, x), test::values(test::run_on_reference(module, x)), 1e-5, 1e-5);
  }
}

TEST(IntegerProducts, StayWhereTheirAccumulatorsAreRead) {
  const auto module = product_of_integers({});
  Graph& graph = module->graphs[0];
  for (const Node& n : graph.nodes)
    if (n.op == Op::kMatMulInteger) graph.outputs.push_back(n.outputs[0]);
  const auto fused = fuse_integer_products(module);
  EXPECT_EQ(fused->graphs[0].nodes.size(), graph.nodes.size());
}

/// An LSTM that rounds its states, or does not, whose weights are quantized constants that become real.
std::shared_ptr<Module> recurrence_of_bytes(bool rounds) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const NodeMaker node{b};
  RecurrentAttrs a;
  a.hidden = 3;
  a.dynamic_quantization = rounds;
  const auto weights = [&](int64_t k, uint32_t seed) {
    const ValueId q = b.constant("w", test::random_quantized(DType::kI8, {12, k}, 0.01f, 0, seed));
    const ValueId real = node(Op::kDequantize, make_attrs<NoAttrs>(), {q})[0];
    return node(Op::kReshape, make_attrs<ReshapeAttrs>(), {real, b.constant("to", test::i64({1, 12, k}))})[0];
  };
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{4, 1, 5}));
  const ValueId w = weights(5, 1), r = weights(3, 2);
  b.graph().outputs = {node(Op::kRecurrent, make_attrs<RecurrentAttrs>(a), {x, w, r})[0]};
  return module;
}

TEST(IntegerProducts, RecurrentReadsQuantizedWeights) {
  for (const bool rounds : {false, true}) {
    const auto module = recurrence_of_bytes(rounds);
    const auto fused = fuse_integer_products(module);
    EXPECT_EQ(fused != module, rounds);
    const Graph& g = fused->graphs[0];
    ASSERT_FALSE(g.nodes.empty());
    for (const size_t i : {1, 2}) EXPECT_EQ(g.value(g.nodes.back().inputs[i]).type.quant != nullptr, rounds);
    EXPECT_EQ(g.nodes.size(), rounds ? 1U : 5U);
  }
}

}  // namespace
}  // namespace smelt
