// Functions of 8-bit values between conversions.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <span>

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

/// int8 -> real, 1 / sqrt(x) or (x - y) * (x - y), int8; `zero`: the operands' zero point.
std::shared_ptr<Module> spelled_out(bool root, int8_t zero) {
  auto module = std::make_shared<Module>();
  module->format = "test";
  module->graphs.emplace_back().name = "main";
  module->methods.push_back({.name = "main", .graph = 0});
  Builder b(*module, 0);
  const ValueType type = ValueType::tensor(DType::kI8, {3, 7});
  const ValueId x = b.input("x", type), y = b.input("y", type), out = b.value("out", type);
  const auto zero_point = [&](int8_t z) {
    return b.constant("", Tensor::from<int8_t>(DType::kI8, {}, std::span(&z, 1)));
  };
  const auto scale = [&](float s) { return b.constant("", Tensor::from<float>(DType::kF32, {}, std::span(&s, 1))); };
  QuantizeLinearAttrs to_real;
  to_real.to = DType::kF32;
  const auto real = [&](ValueId v) {
    return b.op(Op::kDequantizeLinear, make_attrs<QuantizeLinearAttrs>(to_real), {v, scale(0.02f), zero_point(zero)});
  };
  const auto p = real(x), q = real(y);
  EXPECT_TRUE(p.ok() && q.ok());
  const auto d = root ? b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kSqrt), {*p})
                      : b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kSub), {*p, *q});
  EXPECT_TRUE(d.ok());
  const auto made = root ? b.op(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kReciprocal), {*d})
                         : b.op(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMul), {*d, *d});
  QuantizeLinearAttrs to_int8;
  to_int8.to = DType::kI8;
  EXPECT_TRUE(made.ok() && b.node_to(Op::kQuantizeLinear, make_attrs<QuantizeLinearAttrs>(to_int8),
                                     {*made, scale(root ? 0.03f : 0.1f), zero_point(-128)}, {out})
                               .ok());
  b.graph().inputs = {x, y};
  b.graph().outputs = {out};
  return module;
}

TEST(IntegerFunctions, AreOneOperatorWhereTfliteHasIt) {
  for (const bool root : {true, false})
    for (const int8_t zero : {int8_t{-128}, int8_t{3}}) {
      SCOPED_TRACE(testing::Message() << root << " " << int{zero});
      const auto module = spelled_out(root, zero);
      convert::name_integer_functions(*module);
      const auto& nodes = module->graphs[0].nodes;
      const bool named = std::ranges::any_of(nodes, [](const Node& n) {
        return (n.op == Op::kUnary && static_cast<const UnaryAttrs&>(*n.attrs).fn == Unary::kRsqrt) ||
               (n.op == Op::kBinary && static_cast<const BinaryAttrs&>(*n.attrs).fn == Binary::kSquaredDifference);
      });
      // A root of what may be negative stays: TFLite's kernel of integers refuses it.
      EXPECT_EQ(named, !root || zero == -128);
      const Tensor x = test::random_tensor(DType::kI8, {3, 7}, 4, 100, 3),
                   y = test::random_tensor(DType::kI8, {3, 7}, 4, 100, 4);
      test::expect_same_written(spelled_out(root, zero), {Datum(x), Datum(y)}, "tflite", {}, 1);
    }
}

}  // namespace
}  // namespace smelt
