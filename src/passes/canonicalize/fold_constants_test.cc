#include <gtest/gtest.h>

#include "convert/node_runner.h"
#include "ops/core/builder.h"
#include "ops/core/verify.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {

/// x + w * w * w with a constant w [rows, 1000]; w * w is an output too, if asked.
struct Cubed {
  explicit Cubed(int64_t rows, bool square_is_output = false) {
    Builder b(*module, 0);
    const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{1, 1000}));
    const auto binary = [&](Binary f, ValueId p, ValueId q) {
      return b.op(Op::kBinary, make_attrs<BinaryAttrs>(f), {p, q}).value();
    };
    w = b.constant("w", test::random_tensor(DType::kF32, {rows, 1000}, -1, 1, 2));
    square = binary(Binary::kMul, w, w);
    cube = binary(Binary::kMul, square, w);
    b.graph().outputs = {binary(Binary::kAdd, x, cube)};
    if (square_is_output) b.graph().outputs.push_back(square);
  }
  Graph& graph() { return module->graphs[0]; }
  bool is_constant(ValueId id) { return graph().value(id).constant != nullptr; }
  /// What became constant. Checks that the results stay.
  std::vector<ValueId> fold() {
    const Tensor x = test::random_tensor(DType::kF32, {1, 1000}, -1, 1, 1);
    const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), x));
    auto folded = fold_constants(graph(), convert::NodeRunner(*module).evaluate());
    EXPECT_TRUE(verify(*module).ok());
    EXPECT_EQ(graph().nodes.size(), 1u);
    test::expect_near(test::run_on_reference(module, x), before, 0, 0);
    return folded;
  }

  std::shared_ptr<Module> module = test::module_of_one_graph();
  ValueId w, square, cube;
};

TEST(FoldConstants, LargeOnesThatNobodyReadsAnyMoreAreDropped) {
  Cubed large(200);
  EXPECT_EQ(large.fold(), std::vector<ValueId>{large.cube});
  EXPECT_FALSE(large.is_constant(large.square));
  EXPECT_TRUE(large.is_constant(large.cube));
  EXPECT_TRUE(large.is_constant(large.w));  // of the model
}

TEST(FoldConstants, SmallOnesAndOutputsStay) {
  Cubed small(1);
  EXPECT_EQ(small.fold(), (std::vector<ValueId>{small.square, small.cube}));
  EXPECT_TRUE(small.is_constant(small.square));
  Cubed read(200, true);
  EXPECT_EQ(read.fold(), (std::vector<ValueId>{read.square, read.cube}));
  EXPECT_TRUE(read.is_constant(read.square));
}

/// y = float32 values of a constant [rows, 1000].
TEST(FoldConstants, LargeNarrowFloatsAreWidenedWhereTheyAreRead) {
  for (const DType narrow : {DType::kF16, DType::kBF16})
    for (const int64_t rows : {1, 200}) {
      auto module = test::module_of_one_graph();
      Builder b(*module, 0);
      const ValueId w = b.constant("w", test::random_tensor(narrow, {rows, 1000}, -1, 1, 2));
      const ValueId cast = b.op(Op::kCast, make_attrs<CastAttrs>(DType::kF32), {w}).value();
      const ValueId real = b.value("", ValueType::tensor(DType::kF32, Shape{rows, 1000}));
      EXPECT_TRUE(b.node_to(Op::kDequantize, make_attrs<NoAttrs>(), {w}, {real}).ok());
      b.graph().outputs = {cast, real};
      Graph& g = module->graphs[0];
      EXPECT_EQ(fold_constants(g, convert::NodeRunner(*module).evaluate()), (std::vector<ValueId>{cast, real}));
      EXPECT_TRUE(g.nodes.empty());
      for (const ValueId id : {cast, real}) {
        const Tensor& constant = *g.value(id).constant;
        EXPECT_EQ(constant.source() != nullptr, constant.elements() > 1024);
        for (int64_t i = 0; i < constant.elements(); ++i)
          ASSERT_EQ(get_double(constant, i), get_double(*g.value(w).constant, i));
      }
    }
}

/// Exporters write equal weights once, quantizers quantize each use: of one use, the weights are quantized already.
/// That use may be the only one that is left.
class WeightsQuantizedAgain : public testing::TestWithParam<bool> {};

TEST_P(WeightsQuantizedAgain, AreIntegers) {
  auto module = test::module_of_one_graph();
  Builder b(*module, 0);
  const auto quantize = [&](Op op, DType type, ValueId x, float scale) {
    QuantizeLinearAttrs a;
    a.to = type;
    const ValueId step = b.constant("", Tensor::from<float>(DType::kF32, {}, std::vector{scale}));
    return b.op(op, make_attrs<QuantizeLinearAttrs>(a), {x, step}).value();
  };
  const ValueId x = b.input("x", ValueType::tensor(DType::kF32, Shape{2, 3}));
  const ValueId integers = b.constant("", test::random_tensor(DType::kI8, {2, 3}, -100, 100, 1));
  const ValueId real = quantize(Op::kDequantizeLinear, DType::kF32, integers, 0.5f);
  const ValueId again = quantize(Op::kQuantizeLinear, DType::kI8, real, 0.25f);
  const ValueId real_again = quantize(Op::kDequantizeLinear, DType::kF32, again, 0.25f);
  const auto add = [&](ValueId p, ValueId q) {
    return b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kAdd), {p, q}).value();
  };
  b.graph().outputs = {add(GetParam() ? add(x, real) : x, real_again)};
  const Tensor in = test::random_tensor(DType::kF32, {2, 3}, -1, 1, 1);
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), in));
  EXPECT_EQ(fold_constants(module->graphs[0], convert::NodeRunner(*module).evaluate()), std::vector<ValueId>{again});
  EXPECT_TRUE(verify(*module).ok());
  EXPECT_EQ(module->graphs[0].nodes.size(), GetParam() ? 4u : 3u);
  EXPECT_FALSE(module->graphs[0].value(real).constant || module->graphs[0].value(real_again).constant);
  test::expect_near(test::run_on_reference(module, in), before, 0, 0);
}

INSTANTIATE_TEST_SUITE_P(FoldConstants, WeightsQuantizedAgain, testing::Bool());

}  // namespace
}  // namespace smelt
