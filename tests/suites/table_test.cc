#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "ops/control/control.h"
#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"

namespace smelt {
namespace {

TEST(OpTable, NamesAreUniqueAndRowsComplete) {
  std::set<std::string> names;
  for (const OpInfo& op : all_ops()) {
    EXPECT_TRUE(names.insert(op.name).second) << op.name;
    EXPECT_NE(std::string(op.doc), "") << op.name;
    EXPECT_LE(op.min_inputs, op.max_inputs) << op.name;
  }
  EXPECT_EQ(names.size(), static_cast<size_t>(Op::kCount));
}

TEST(OpTable, FlagsAgree) {
  for (const OpInfo& op : all_ops()) {
    const auto has = [&](uint32_t flags) { return (op.flags & flags) == flags; };
    const auto any = [&](uint32_t flags) { return (op.flags & flags) != 0; };
    // implies(a, b): every operator with a flag of a has all of b
    const auto implies = [&](uint32_t a, uint32_t b) { return !any(a) || has(b); };
    const auto excludes = [&](uint32_t a, uint32_t b) { return !any(a) || !any(b); };
    EXPECT_TRUE(excludes(kDataMovement, kQuantized)) << op.name;
    EXPECT_TRUE(implies(kView, kQuantTransparent)) << op.name;
    EXPECT_TRUE(implies(kView | kQuantTransparent, kDataMovement)) << op.name;
    EXPECT_TRUE(implies(kWeighted, kQuantized)) << op.name;
    EXPECT_TRUE(
        excludes(kView | kAnyLayout | kQuantTransparent | kWeighted | kActivation | kWidensToFloat | kWidensToInt,
                 kEffect | kDynamic | kControl | kContainer))
        << op.name;
    EXPECT_TRUE(!has(kView) || op.max_outputs == 1) << op.name;
    EXPECT_TRUE(!has(kWeighted) || (op.min_inputs == 2 && op.max_inputs > 2)) << op.name;
  }
}

TEST(OpTable, ControlFlowNamesItsGraphs) {
  IfAttrs branch;
  branch.then_graph = 3;
  branch.else_graph = 5;
  EXPECT_EQ(op_info(Op::kIf).graphs(branch), (std::vector<int>{3, 5}));
  EXPECT_TRUE(op_info(Op::kSoftmax).graphs(SoftmaxAttrs()).empty());
}

TEST(OpTable, MultiplyAddsOfWeightedOperators) {
  const auto f32 = [](const Shape& shape) { return ValueType::tensor(DType::kF32, shape); };
  const std::vector<ValueType> conv{f32({1, 4, 8, 8}), f32({6, 4, 3, 3})}, matmul{f32({5, 7}), f32({7, 2})};
  EXPECT_EQ(op_info(Op::kConv).multiply_adds(ConvAttrs(), conv, f32({1, 6, 6, 6})), 6 * 6 * 6 * 4 * 3 * 3);
  EXPECT_EQ(op_info(Op::kMatMul).multiply_adds(MatMulAttrs(), matmul, f32({5, 2})), 5 * 7 * 2);
  EXPECT_EQ(op_info(Op::kUnary).multiply_adds(UnaryAttrs(), conv, f32({1, 4, 8, 8})), 0);
}

TEST(OpTable, LayoutFollowsFromAttributes) {
  const OpInfo& conv = op_info(Op::kConv);
  const AttrsPtr moved = conv.channels_last(make_attrs<ConvAttrs>(), 4);
  EXPECT_EQ(static_cast<const ConvAttrs&>(*moved).layout, Layout::kChannelsLast);
  EXPECT_EQ(conv.channels_last(moved, 4), nullptr);
  SoftmaxAttrs softmax;
  softmax.axis = 1;
  const AttrsPtr last = op_info(Op::kSoftmax).channels_last(make_attrs<SoftmaxAttrs>(softmax), 4);
  EXPECT_EQ(static_cast<const SoftmaxAttrs&>(*last).axis, 3);
  const AttrsPtr unary = make_attrs<UnaryAttrs>(Unary::kAbs);
  EXPECT_EQ(op_info(Op::kUnary).channels_last(unary, 4), unary);
}

TEST(OpTable, ActivationGoesWhereThereIsNone) {
  const Activation relu{ActKind::kRelu};
  for (size_t i = 0; i < all_ops().size(); ++i) {
    const OpInfo& op = all_ops()[i];
    const bool listed = i == static_cast<size_t>(Op::kConv) || i == static_cast<size_t>(Op::kMatMul) ||
                        i == static_cast<size_t>(Op::kBinary);
    EXPECT_EQ((op.flags & kActivation) != 0, listed) << op.name;
  }
  const OpInfo& conv = op_info(Op::kConv);
  const AttrsPtr fused = conv.with_activation(ConvAttrs(), relu, false);
  ASSERT_NE(fused, nullptr);
  EXPECT_EQ(static_cast<const ConvAttrs&>(*fused).act.kind, ActKind::kRelu);
  EXPECT_EQ(conv.with_activation(*fused, relu, false), nullptr);
  ConvAttrs fixed;
  fixed.rounding = Rounding::kFixedDouble;
  EXPECT_EQ(conv.with_activation(fixed, relu, true), nullptr);
  EXPECT_EQ(op_info(Op::kBinary).with_activation(BinaryAttrs(Binary::kPow), relu, false), nullptr);
  EXPECT_EQ(op_info(Op::kSoftmax).with_activation(SoftmaxAttrs(), relu, false), nullptr);
}

}  // namespace
}  // namespace smelt
