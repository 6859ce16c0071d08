#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tests/support/exporter_forms.h"
#include "tests/support/module.h"
#include "tests/support/op_case.h"
#include "tests/support/op_runner.h"
#include "tests/support/run_module.h"

namespace smelt {
namespace {
using test::Forms;

ValueId convert(Forms& f, Op op, ValueId x, DType type, const QuantPtr& quant) {
  ValueType to = f.b.graph().value(x).type;
  to.dtype = type;
  to.quant = quant;
  auto made = f.b.op_as(op, make_attrs<NoAttrs>(), {x}, to);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return made.ok() ? *made : 0;
}

/// Number of values that Dequantizes make behind the pass, where integers [1, 8, 3] are dequantized, moved in two
/// steps, and one half is quantized as it was, the other with other parameters; `read`: a Tanh reads the first half
/// too.
int64_t real_values_behind_sinking(bool read) {
  auto module = test::module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const QuantPtr quant = test::per_tensor(0.05F, 3), other = test::per_tensor(0.07F, -2);
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 8, 3}));
  const ValueId integers = convert(f, Op::kQuantize, x, DType::kI8, quant);
  const ValueId moved = f.transpose(convert(f, Op::kDequantize, integers, DType::kF32, nullptr), {0, 2, 1});
  SplitAttrs two;
  two.axis = 2;
  two.count = 2;
  auto parts = f.b.node(Op::kSplit, make_attrs<SplitAttrs>(two), {moved}, 2);
  EXPECT_TRUE(parts.ok()) << (parts.ok() ? "" : parts.error().message());
  if (!parts.ok()) return -1;
  std::vector<ValueId> outputs{convert(f, Op::kQuantize, (*parts)[0], DType::kI8, quant),
                               convert(f, Op::kQuantize, (*parts)[1], DType::kI8, other)};
  if (read) outputs.push_back(f.unary(Unary::kTanh, (*parts)[0]));
  for (ValueId& id : outputs)
    if (f.b.graph().value(id).type.quant) id = convert(f, Op::kDequantize, id, DType::kF32, nullptr);
  Graph& graph = module->graphs[0];
  graph.outputs = {f.op(Op::kConcat, make_attrs<AxisAttrs>(int64_t{1}), outputs)};
  const Tensor in = test::random_tensor(DType::kF32, {1, 8, 3}, -3, 3, 1);
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), in));
  sink_dequantize(graph);
  remove_identities(graph);
  EXPECT_TRUE(verify(*module).ok());
  test::expect_near(test::run_on_reference(module, in), before, 0, 0);
  int64_t made = 0;
  for (const Node& n : graph.nodes)
    if (n.op == Op::kDequantize) made += graph.value(n.outputs[0]).type.shape.elements();
  return made;
}

TEST(SinkDequantize, IntegersAreMovedWhereTheyAreQuantizedAgain) {
  EXPECT_EQ(real_values_behind_sinking(false), 12 + 2 * 12);  // of the half with other parameters, and of the results
}

TEST(SinkDequantize, RealValuesAreMovedWhereOthersReadThem) {
  EXPECT_EQ(real_values_behind_sinking(true), 24 + 2 * 12);
}

/// Operators behind the pass where integers are dequantized, padded with `value` and quantized as they were.
std::vector<Op> operators_behind_padding(float value, int32_t zero_point = 3) {
  auto module = test::module_of_one_graph();
  Forms f{Builder(*module, 0)};
  const QuantPtr quant = test::per_tensor(0.05F, zero_point);
  const ValueId x = f.b.input("x", ValueType::tensor(DType::kF32, Shape{1, 4, 3}));
  const ValueId real =
      convert(f, Op::kDequantize, convert(f, Op::kQuantize, x, DType::kI8, quant), DType::kF32, nullptr);
  const ValueId padded =
      f.op(Op::kPad, make_attrs<PadAttrs>(), {real, f.b.i64({0, 1, 0, 0, 2, 1}), f.b.f32_scalar(value)});
  Graph& graph = module->graphs[0];
  graph.outputs = {
      convert(f, Op::kDequantize, convert(f, Op::kQuantize, padded, DType::kI8, quant), DType::kF32, nullptr)};
  const Tensor in = test::random_tensor(DType::kF32, {1, 4, 3}, -3, 3, 1);
  const auto before = test::values(test::run_on_reference(std::make_shared<Module>(*module), in));
  sink_dequantize(graph);
  remove_identities(graph);
  EXPECT_TRUE(verify(*module).ok());
  test::expect_near(test::run_on_reference(module, in), before, 0, 0);
  std::vector<Op> ops;
  for (const Node& n : graph.nodes) ops.push_back(n.op);
  return ops;
}

TEST(SinkDequantize, IntegersArePaddedWithZeros) {
  EXPECT_EQ(operators_behind_padding(0), (std::vector<Op>{Op::kQuantize, Op::kPad, Op::kDequantize}));
  EXPECT_EQ(operators_behind_padding(0.3F),
            (std::vector<Op>{Op::kQuantize, Op::kDequantize, Op::kPad, Op::kQuantize, Op::kDequantize}));
  EXPECT_EQ(operators_behind_padding(0, 200),  // no int8 stands for 0
            (std::vector<Op>{Op::kQuantize, Op::kDequantize, Op::kPad, Op::kQuantize, Op::kDequantize}));
}

}  // namespace
}  // namespace smelt
