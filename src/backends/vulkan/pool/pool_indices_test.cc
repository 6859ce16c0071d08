#include "ops/conv/conv.h"
#include "ops/pool/pool.h"
#include "tests/support/vulkan_check.h"
#include "tests/support/vulkan_integer.h"

namespace smelt::vulkan {
namespace {

class VulkanPoolIndices : public VulkanTest {};

TEST_F(VulkanPoolIndices, Rules) {
  for (auto rule : {PoolAttrs::Index::kTensorRow, PoolAttrs::Index::kTensorColumn, PoolAttrs::Index::kPlane,
                    PoolAttrs::Index::kWindowColumn})
    for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
      for (DType index : {DType::kI64, DType::kI32})
        for (bool plane : {true, false}) {
          PoolAttrs a;
          a.kernel = plane ? std::vector<int64_t>{3, 2} : std::vector<int64_t>{2, 3, 2};
          a.strides = plane ? std::vector<int64_t>{2, 1} : std::vector<int64_t>{1, 2, 1};
          a.pads = plane ? std::vector<int64_t>{1, 1, 1, 0} : std::vector<int64_t>{1, 1, 0, 0, 1, 1};
          a.dilations = plane ? std::vector<int64_t>{1, 2} : std::vector<int64_t>{1, 1, 2};
          a.index = rule;
          a.index_dtype = index;
          a.layout = layout;
          const Shape x = plane ? Shape{2, 5, 7, 6} : Shape{1, 4, 5, 6, 7};
          check_on_gpu({.label = Cat(to_string(rule), " ", to_string(layout), " ", plane),
                        .op = Op::kPool,
                        .attrs = make_attrs<PoolAttrs>(a),
                        .inputs = {random_tensor(DType::kF32, x, -1, 1, 3)},
                        .outputs = std::vector<ValueType>(2)},
                       "pool_float");
        }
}

TEST_F(VulkanPoolIndices, Adaptive) {
  AdaptivePoolAttrs a;
  a.kind = PoolKind::kMax;
  a.output = {3, 4};
  check_on_gpu({.label = "bins",
                .op = Op::kAdaptivePool,
                .attrs = make_attrs<AdaptivePoolAttrs>(a),
                .inputs = {random_tensor(DType::kF16, {2, 3, 7, 9}, -1, 1, 3)},
                .outputs = std::vector<ValueType>(2)},
               "adaptive_pool_float", {1e-3, 1e-3});
}

class VulkanConvInteger : public VulkanTest {};

TEST_F(VulkanConvInteger, TypesZeroPointsAndGroups) {
  for (DType x : {DType::kI8, DType::kU8})
    for (DType w : {DType::kI8, DType::kU8})
      for (int zeros : {0, 1, 2})
        for (int64_t groups : {1, 2}) {
          const OpCase c = conv_integer_case(x, w, zeros, groups, 4);
          check_on_gpu(c, "conv_integer");
        }
}

}  // namespace
}  // namespace smelt::vulkan
