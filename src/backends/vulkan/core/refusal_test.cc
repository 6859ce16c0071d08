// What is said about nodes that stay with the host.
#include <gtest/gtest.h>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/device/device.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/normalization/normalization.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanRefusal : public VulkanTest {
 protected:
  /// What is said about an operator of these types; all inputs are computed.
  static std::string said(Op op, const AttrsPtr& attrs, const std::vector<ValueType>& inputs,
                          const std::vector<ValueType>& outputs) {
    const auto device = Device::open(-1);
    if (!device.ok()) return device.error().message();
    Node node;
    node.op = op;
    node.attrs = attrs;
    node.outputs = {0};
    const std::vector<const Tensor*> constants(inputs.size(), nullptr);
    const KernelSpec spec{{node, inputs, constants, outputs}, **device};
    EXPECT_EQ(make_kernel(spec), nullptr);
    return refusal(spec);
  }
  static ValueType type(DType dtype, const Shape& shape = {2, 3}) { return ValueType::tensor(dtype, shape); }
};

TEST_F(VulkanRefusal, NamesTheCause) {
  const AttrsPtr none = make_attrs<NoAttrs>();
  EXPECT_EQ(said(Op::kInverse, none, {type(DType::kF32)}, {type(DType::kF32)}), "no Vulkan kernel for Inverse");
  EXPECT_EQ(
      said(Op::kWhere, none, {type(DType::kBool), type(DType::kString), type(DType::kString)}, {type(DType::kString)}),
      "output 0 is string, which the device does not store");
  EXPECT_EQ(said(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kEqual), {type(DType::kString), type(DType::kString)},
                 {type(DType::kBool)}),
            "input 0 is string, which the device does not store");
  EXPECT_EQ(said(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kSin), {type(DType::kF64)}, {type(DType::kF64)}),
            "Unary sin: float64 is not computed with this function");
  EXPECT_EQ(said(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMax), {type(DType::kU64), type(DType::kU64)},
                 {type(DType::kU64)}),
            "no Vulkan kernel for Binary max of uint64, uint64 to uint64");
  EXPECT_EQ(
      said(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), {type(DType::kF32, {0, 3})}, {type(DType::kF32, {0, 3})}),
      "output 0 [0,3] is empty");
  EXPECT_EQ(said(Op::kMatMul, make_attrs<MatMulAttrs>(), {type(DType::kI64, {2, 3}), type(DType::kI64, {3, 2})},
                 {type(DType::kI64, {2, 2})}),
            "no Vulkan kernel for MatMul of int64, int64 to int64");
  const int64_t large = int64_t{1} << 31;
  EXPECT_NE(
      said(Op::kUnary, make_attrs<UnaryAttrs>(Unary::kAbs), {type(DType::kF32, {large})}, {type(DType::kF32, {large})})
          .find("output 0 of 8589934592 bytes is beyond the "),
      std::string::npos);
}

/// A condition of the kernel list that all kernels of an operator miss.
TEST_F(VulkanRefusal, NamesTheUnmetCondition) {
  EXPECT_EQ(
      said(Op::kLayerNorm, make_attrs<LayerNormAttrs>(), {type(DType::kI32), type(DType::kI32)}, {type(DType::kI32)}),
      "LayerNorm: output 0 is int32, float32 or float16 expected");
  EXPECT_EQ(said(Op::kTopK, make_attrs<TopKAttrs>(), {type(DType::kF32), type(DType::kI64, {1})},
                 {type(DType::kF32, {2, 2})}),
            "TopK: input 1 is no constant");
}

TEST_F(VulkanRefusal, NamesDynamicParameters) {
  const ValueType real = type(DType::kF32), one = type(DType::kI64, {1});
  EXPECT_EQ(said(Op::kReduce, make_attrs<ReduceAttrs>(), {real, one}, {type(DType::kF32, {2})}),
            "Reduce sum: the axes (input 1) are computed");
  EXPECT_EQ(said(Op::kSlice, make_attrs<NoAttrs>(), {real, one, one, one}, {type(DType::kF32, {2, 2})}),
            "Slice: where elements go depends on input 1, which is computed");
}

}  // namespace
}  // namespace smelt::vulkan
