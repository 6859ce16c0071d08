#include "ops/gather/gather.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanScatter : public VulkanTest {};

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8};

using Reduce = ScatterAttrs::Reduce;

AttrsPtr scatter(Reduce reduce, int64_t axis = 0) {
  ScatterAttrs a;
  a.reduction = reduce;
  a.axis = axis;
  return make_attrs<ScatterAttrs>(a);
}

Tensor values(DType dtype, const Shape& shape, uint32_t seed) {
  return random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -3, 3, seed);
}

constexpr Tolerance kNear{2e-3, 2e-3};

TEST_F(VulkanScatter, Elements) {
  for (DType dtype : kTypes)
    for (DType index : {DType::kI32, DType::kI64})
      for (Reduce reduce : {Reduce::kNone, Reduce::kAdd, Reduce::kMul, Reduce::kMin, Reduce::kMax})
        for (int64_t axis : {0, 1, -1})
          check_on_gpu(
              {Cat(to_string(dtype), " ", to_string(reduce), " ", axis),
               Op::kScatterElements,
               scatter(reduce, axis),
               {values(dtype, {4, 5, 6}, 1), random_tensor(index, {4, 3, 6}, -4, 3, 2), values(dtype, {4, 4, 6}, 3)}},
              "scatter_elements", kNear);
}

TEST_F(VulkanScatter, Tuples) {
  for (DType dtype : kTypes)
    for (DType index : {DType::kI32, DType::kI64})
      for (int64_t tuple : {1, 2, 3})
        for (Reduce reduce : {Reduce::kAdd, Reduce::kMul, Reduce::kMin, Reduce::kMax}) {
          Shape slices{7};
          for (int64_t d = tuple; d < 3; ++d) slices.push_back(4 + d);
          check_on_gpu(
              {Cat(to_string(dtype), " ", to_string(reduce), " ", tuple),
               Op::kScatterND,
               scatter(reduce),
               {values(dtype, {4, 5, 6}, 1), random_tensor(index, {7, tuple}, -4, 3, 2), values(dtype, slices, 3)}},
              "scatter_nd", kNear);
        }
}

TEST_F(VulkanScatter, Zeros) {
  for (DType dtype : {DType::kF32, DType::kI32, DType::kI64})
    check_on_gpu({to_string(dtype),
                  Op::kScatterNew,
                  make_attrs<NoAttrs>(),
                  {random_tensor(DType::kI32, {9, 2}, 0, 3, 1), values(dtype, {9, 6}, 2),
                   tensor(DType::kI32, Shape{3}, {4, 5, 6})},
                  {2}},
                 "scatter_new");
}

TEST_F(VulkanScatter, Slices) {
  for (DType dtype : kTypes)
    for (Reduce reduce : {Reduce::kAdd, Reduce::kMax})
      check_on_gpu(
          {to_string(dtype),
           Op::kIndexSelectPut,
           scatter(reduce, 1),
           {values(dtype, {3, 5, 4}, 1), random_tensor(DType::kI64, {6}, 0, 4, 2), values(dtype, {3, 6, 4}, 3)}},
          "scatter_slices", kNear);
}

TEST_F(VulkanScatter, OneHot) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kU8, DType::kBool})
    for (DType index : {DType::kI32, DType::kI64})
      for (int64_t axis : {0, 1, -1})
        for (bool wrap : {false, true}) {
          OneHotAttrs a;
          a.axis = axis;
          a.wrap_negative = wrap;
          OpCase c{Cat(to_string(dtype), " ", axis, wrap),
                   Op::kOneHot,
                   make_attrs<OneHotAttrs>(a),
                   {random_tensor(index, {3, 7}, -7, 7, 1), tensor(DType::kI64, Shape{}, {5}),
                    tensor(dtype, Shape{2}, {0, 1})},
                   {1}};
          check_on_gpu(c, "one_hot");
          c.inputs[2] = tensor(dtype, Shape{}, {1});
          c.inputs.push_back(tensor(dtype, Shape{}, {0}));
          check_on_gpu(c, "one_hot");
        }
}

TEST_F(VulkanScatter, OutOfRangeFails) {
  const auto result =
      run_on_gpu({"out of range",
                  Op::kScatterElements,
                  scatter(Reduce::kAdd),
                  {values(DType::kF32, {4}, 1), tensor(DType::kI64, Shape{2}, {1, 4}), values(DType::kF32, {2}, 2)}});
  EXPECT_FALSE(result.ok());
}

}  // namespace
}  // namespace smelt::vulkan
