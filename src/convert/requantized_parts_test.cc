// Parts of a concatenation in other quantization parameters than its own.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "convert/convert.h"
#include "ops/core/builder.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

ValueType int8_type(float scale) {
  Quantization q;
  q.scales = {scale};
  q.zero_points = {3};
  ValueType t = ValueType::tensor(DType::kI8, {2, 5});
  t.quant = std::make_shared<const Quantization>(std::move(q));
  return t;
}

/// a and b, which a product with `factor` brings to a's parameters, joined.
std::shared_ptr<Module> joined(float factor) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.emplace_back().name = "main";
  module->methods.push_back({.name = "main", .graph = 0});
  Builder b(*module, 0);
  const ValueId x = b.input("a", int8_type(0.02f)), y = b.input("b", int8_type(0.031f));
  Tensor one(DType::kI8, Shape{});
  *one.data<int8_t>() = 1;
  Quantization q;
  q.scales = {factor};
  q.zero_points = {0};
  one.set_quant(std::make_shared<const Quantization>(std::move(q)));
  const ValueId scaled = b.value("", int8_type(0.02f));
  EXPECT_TRUE(
      b.node_to(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {y, b.constant("one", one)}, {scaled}).ok());
  ValueType type = int8_type(0.02f);
  type.shape = {4, 5};
  const ValueId z = b.value("", type);
  EXPECT_TRUE(b.node_to(Op::kConcat, make_attrs<AxisAttrs>(0), {x, scaled}, {z}).ok());
  b.graph().inputs = {x, y};
  b.graph().outputs = {z};
  return module;
}

TEST(RequantizedParts, AreJoinedAsTheyAre) {
  for (const float factor : {1.0f, 2.0f}) {
    const auto module = joined(factor);
    convert::join_before_requantization(*module);
    EXPECT_EQ(std::ranges::count(module->graphs[0].nodes, Op::kBinary, &Node::op), factor == 1 ? 0 : 1);
    const auto fed = [](float scale, uint32_t seed) {
      Tensor t = test::random_tensor(DType::kI8, {2, 5}, -100, 100, seed);
      t.set_quant(int8_type(scale).quant);
      return Datum(t);
    };
    test::expect_same_written(joined(factor), {fed(0.02f, 1), fed(0.031f, 2)}, "onnx");
  }
}

}  // namespace
}  // namespace smelt
