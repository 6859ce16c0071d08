// Softmax and logistic functions between conversions of 8-bit values.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "convert/convert.h"
#include "ops/core/builder.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/softmax/softmax.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

ValueType int8_type(float scale, int32_t zero) {
  Quantization q;
  q.scales = {scale};
  q.zero_points = {zero};
  ValueType t = ValueType::tensor(DType::kI8, {3, 7});
  t.quant = std::make_shared<const Quantization>(std::move(q));
  return t;
}

/// int8 -> real, the function, int8 of that scale.
std::shared_ptr<Module> between_conversions(bool softmax, float scale) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.emplace_back().name = "main";
  module->methods.push_back({.name = "main", .graph = 0});
  Builder b(*module, 0);
  const ValueId x = b.input("x", int8_type(0.05f, 4)), y = b.value("y", int8_type(scale, -128));
  const auto real = b.op(Op::kDequantize, make_attrs<NoAttrs>(), {x});
  EXPECT_TRUE(real.ok());
  const auto p = softmax ? b.op(Op::kSoftmax, make_attrs<SoftmaxAttrs>(), {*real})
                         : b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kSigmoid), {*real});
  EXPECT_TRUE(p.ok() && b.node_to(Op::kQuantize, make_attrs<NoAttrs>(), {*p}, {y}).ok());
  b.graph().inputs = {x};
  b.graph().outputs = {y};
  return module;
}

TEST(IntegerFunctions, TakeIntegersWhereTfliteDoes) {
  for (const bool softmax : {true, false})
    for (const float scale : {1.f / 256, 1.f / 128}) {
      SCOPED_TRACE(testing::Message() << softmax << " " << scale);
      const auto module = between_conversions(softmax, scale);
      convert::join_integer_functions(*module);
      EXPECT_EQ(module->graphs[0].nodes.size(), scale == 1.f / 256 ? 1U : 3U);
      Tensor fed = test::random_tensor(DType::kI8, {3, 7}, -100, 100, 3);
      fed.set_quant(int8_type(0.05f, 4).quant);
      test::expect_same_written(between_conversions(softmax, scale), {Datum(fed)}, "tflite");
    }
}

}  // namespace
}  // namespace smelt
