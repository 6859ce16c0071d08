#include "ops/core/kernel_condition.h"

#include <gtest/gtest.h>

#include "ops/conv/conv.h"
#include "tests/support/op_case.h"

namespace smelt {
namespace {

using namespace operand_types;

/// Why a node with these inputs, of which the last is a constant, and this output does not meet the condition; "": it
/// does.
std::string unmet(const KernelCondition& condition, const std::vector<ValueType>& inputs, const ValueType& output) {
  Node node;
  node.op = Op::kConv;
  ConvAttrs attrs;
  attrs.layout = Layout::kChannelsFirst;
  node.attrs = make_attrs<ConvAttrs>(attrs);
  const Tensor content(DType::kF32, Shape{1});
  std::vector<const Tensor*> constants(inputs.size(), nullptr);
  constants.back() = &content;
  std::string why;
  const NodeSpec spec{node, inputs, constants, std::span(&output, 1)};
  const bool met = condition.met(spec, &why);
  EXPECT_EQ(met, why.empty());
  EXPECT_EQ(met, condition.met(spec, nullptr));
  return why;
}

ValueType type(DType dtype, bool quantized = false) {
  ValueType t = ValueType::tensor(dtype, {2});
  if (quantized) t.quant = test::per_tensor(0.5f, 0);
  return t;
}

TEST(KernelCondition, Types) {
  const ValueType real = type(DType::kF32), half = type(DType::kF16), byte = type(DType::kI8, true), absent{};
  EXPECT_EQ(unmet({}, {real, byte}, half), "");
  EXPECT_EQ(unmet({.in = {F32, Q8}, .out = F16_32}, {real, byte}, half), "");
  EXPECT_EQ(unmet({.in = {F32, F32}}, {real, byte}, half), "input 1 is quantized int8, float32 expected");
  EXPECT_EQ(unmet({.in = {F32, F32}}, {real, absent}, half), "");
  EXPECT_EQ(unmet({.every_in = F32}, {real, half}, half), "input 1 is float16, float32 expected");
  EXPECT_EQ(unmet({.out = Q8 | F32}, {real}, half),
            "output 0 is float16, float32 or quantized int8 or quantized uint8 expected");
}

TEST(KernelCondition, InputsLikeTheOutput) {
  const ValueType real = type(DType::kF32), half = type(DType::kF16), absent{};
  EXPECT_EQ(unmet({.like_out = {0, 1}}, {real, real}, real), "");
  EXPECT_EQ(unmet({.like_out = {0, 1}}, {real, absent}, real), "");
  EXPECT_EQ(unmet({.like_out = {0}}, {half, real}, real), "input 0 is float16, output 0 float32");
  EXPECT_EQ(unmet({.like_out = {0}}, {type(DType::kF32, true)}, real),
            "input 0 is quantized float32, output 0 float32");
}

TEST(KernelCondition, ConstantsAndLayout) {
  const ValueType real = type(DType::kF32);
  EXPECT_EQ(unmet({.constants = {1}, .dynamic = {0}}, {real, real}, real), "");
  EXPECT_EQ(unmet({.constants = {0}}, {real, real}, real), "input 0 is no constant");
  EXPECT_EQ(unmet({.dynamic = {1}}, {real, real}, real), "input 1 is a constant");
  EXPECT_EQ(unmet({.layout = Layout::kChannelsFirst}, {real}, real), "");
  EXPECT_NE(unmet({.layout = Layout::kChannelsLast}, {real}, real), "");
}

}  // namespace
}  // namespace smelt
