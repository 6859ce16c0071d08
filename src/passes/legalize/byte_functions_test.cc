#include <gtest/gtest.h>

#include <utility>

#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// A graph on one int8 input of [3, 100].
class ByteGraph {
 public:
  ByteGraph() { x = builder.input("x", type(0.05f, 3)); }
  static ValueType type(float scale, int32_t zero, const Shape& shape = {3, 100}) {
    return ValueType::tensor(DType::kI8, shape, test::per_tensor(scale, zero, Rounding::kFixedDouble));
  }
  ValueId unary(Unary fn, ValueId in) {
    const ValueId y = builder.value("", type(1.0f / 256, -128));
    EXPECT_TRUE(builder.node_to(Op::kUnary, make_attrs<UnaryAttrs>(fn), {in}, {y}).ok());
    return y;
  }
  ValueId binary(Binary fn, ValueId a, ValueId b) {
    BinaryAttrs attrs(fn);
    attrs.rounding = Rounding::kFixedDouble;
    const ValueId y = builder.value("", type(0.04f, -100));
    EXPECT_TRUE(builder.node_to(Op::kBinary, make_attrs<BinaryAttrs>(attrs), {a, b}, {y}).ok());
    return y;
  }
  /// The operators after the pass, whose results must be those before it.
  std::vector<Op> tabulated(ValueId y) {
    builder.graph().outputs = {y};
    EXPECT_TRUE(verify(*module).ok());
    const auto made = tabulate_byte_functions(module);
    EXPECT_TRUE(verify(*made).ok());
    Tensor bytes = test::random_tensor(DType::kI8, {3, 100}, -128, 127, 1);
    bytes.set_quant(type(0.05f, 3).quant);
    test::expect_near(test::run_on_reference(made, bytes), test::values(test::run_on_reference(module, bytes)), 0, 0);
    std::vector<Op> ops;
    for (const Node& n : made->graphs[0].nodes) ops.push_back(n.op);
    return ops;
  }

  std::shared_ptr<Module> module = test::module_of_one_graph();
  Builder builder{*module, 0};
  ValueId x;
};

TEST(ByteFunctions, BecomeTables) {
  ByteGraph swish;
  EXPECT_EQ(swish.tabulated(swish.binary(Binary::kMul, swish.x, swish.unary(Unary::kSigmoid, swish.x))),
            (std::vector<Op>{Op::kTableFind}));
  ByteGraph scaled;
  Tensor three = test::random_tensor(DType::kI8, {1}, 90, 90, 1);
  three.set_quant(test::per_tensor(0.05f, 0, Rounding::kFixedDouble));
  const ValueId sum = scaled.binary(Binary::kAdd, scaled.x, scaled.builder.constant("three", three));
  EXPECT_EQ(scaled.tabulated(scaled.binary(Binary::kMul, scaled.unary(Unary::kRelu, sum), scaled.x)),
            (std::vector<Op>{Op::kTableFind}));
}

/// A GELU as quantizers leave it: the error function between DequantizeLinear and QuantizeLinear, the rest on bytes.
TEST(ByteFunctions, GoThroughRealNumbers) {
  ByteGraph g;
  Builder& b = g.builder;
  const auto scalar = [&](DType dtype, double v) { return b.constant("", test::random_tensor(dtype, {}, v, v, 1)); };
  const auto add = [&](Op op, AttrsPtr attrs, std::vector<ValueId> in, const ValueType& type) {
    const ValueId y = b.value("", type);
    EXPECT_TRUE(b.node_to(op, std::move(attrs), in, {y}).ok());
    return y;
  };
  const ValueType real = ValueType::tensor(DType::kF32, Shape{3, 100}), raw = ValueType::tensor(DType::kI8, {3, 100});
  QuantizeLinearAttrs to_real, to_bytes;
  to_real.to = DType::kF32;
  to_bytes.to = DType::kI8;
  const ValueId bytes = add(Op::kBitCast, make_attrs<CastAttrs>(DType::kI8), {g.x}, raw);
  const ValueId x = add(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(to_real),
                        {bytes, scalar(DType::kF32, 0.05), scalar(DType::kI8, 3)}, real);
  const ValueId half = add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kDiv), {x, scalar(DType::kF32, 1.414)}, real);
  const ValueId erf = add(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kErf), {half}, real);
  const ValueId stored = add(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(to_bytes),
                             {erf, scalar(DType::kF32, 1.0 / 128), scalar(DType::kI8, 0)}, raw);
  const ValueId again = add(Op::kBitCast, make_attrs<CastAttrs>(DType::kI8), {stored}, ByteGraph::type(1.0f / 128, 0));
  EXPECT_EQ(g.tabulated(g.binary(Binary::kMul, g.x, again)), (std::vector<Op>{Op::kTableFind}));
}

/// A ReLU6 between quantizers: bounds of real numbers, one of which may be missing, and one that cuts nothing off.
TEST(ByteFunctions, BoundsOfRealNumbers) {
  for (const auto& [low, high, op] :
       {std::tuple{0.0, 6.0, Op::kTableFind}, {-1e9, 2.0, Op::kTableFind}, {-50.0, 50.0, Op::kBitCast}}) {
    ByteGraph g;
    Builder& b = g.builder;
    const auto scalar = [&](DType dtype, double v) { return b.constant("", test::random_tensor(dtype, {}, v, v, 1)); };
    QuantizeLinearAttrs to_real, to_bytes;
    to_real.to = DType::kF32;
    to_bytes.to = DType::kI8;
    const ValueId scale = scalar(DType::kF32, 0.05), zero = scalar(DType::kI8, 3);
    const ValueId bytes = b.op(Op::kBitCast, make_attrs<CastAttrs>(DType::kI8), {g.x}).value();
    const ValueId real =
        b.op(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(to_real), {bytes, scale, zero}).value();
    const ValueId bounded = b.op(Op::kClamp, make_attrs<NoAttrs>(),
                                 {real, low < -1e8 ? kNoValue : scalar(DType::kF32, low), scalar(DType::kF32, high)})
                                .value();
    const ValueId stored =
        b.op(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(to_bytes), {bounded, scale, zero}).value();
    EXPECT_EQ(g.tabulated(stored), (std::vector<Op>{op}));
  }
}

TEST(ByteFunctions, StayWhereRealNumbersComeOut) {
  ByteGraph g;
  const ValueId y = g.builder.value("", ValueType::tensor(DType::kF32, Shape{3, 100}));
  EXPECT_TRUE(g.builder.node_to(Op::kDequantize, make_attrs<NoAttrs>(), {g.x}, {y}).ok());
  const ValueId z = g.builder.value("", ValueType::tensor(DType::kF32, Shape{3, 100}));
  EXPECT_TRUE(g.builder.node_to(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kErf), {y}, {z}).ok());
  g.builder.graph().outputs = {z};
  EXPECT_EQ(tabulate_byte_functions(g.module)->graphs[0].nodes.size(), 2u);
}

TEST(ByteFunctions, OfTwoValuesStay) {
  ByteGraph g;
  const ValueId other = g.builder.input("other", ByteGraph::type(0.05f, 3));
  const ValueId y = g.binary(Binary::kMul, g.x, g.unary(Unary::kSigmoid, other));
  g.builder.graph().outputs = {y};
  EXPECT_EQ(tabulate_byte_functions(g.module)->graphs[0].nodes.size(), 2u);
}

TEST(ByteFunctions, ChangeAModuleThatNothingElseHolds) {
  ByteGraph swish;
  swish.builder.graph().outputs = {swish.binary(Binary::kMul, swish.x, swish.unary(Unary::kSigmoid, swish.x))};
  const Module* const before = swish.module.get();
  const auto shared = tabulate_byte_functions(swish.module);
  EXPECT_NE(shared.get(), before);
  EXPECT_EQ(before->graphs[0].nodes.size(), 2u);
  EXPECT_EQ(tabulate_byte_functions(std::move(swish.module)).get(), before);
}

}  // namespace
}  // namespace smelt
