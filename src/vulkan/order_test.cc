#include <limits>

#include "cpu/testing.h"
#include "ops/sort/sort.h"
#include "vulkan/check_test.h"

namespace smelt::vulkan {
namespace {

using testing::random_tensor;

class VulkanOrder : public VulkanTest {};

const std::vector<Shape> kShapes = {Shape{1}, Shape{6, 5, 3}, Shape{2, 33, 2}, Shape{3, 1000}};

TEST_F(VulkanOrder, TopK) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI8, DType::kU8})
    for (DType index : {DType::kI32, DType::kI64})
      for (bool largest : {false, true})
        for (const Shape& shape : kShapes) {
          if (index == DType::kI32 && dtype != DType::kF32) continue;
          TopKAttrs a;
          a.axis = shape.rank() > 1 ? 1 : 0;
          a.largest = largest;
          a.index_dtype = index;
          const double k = std::min<double>(static_cast<double>(shape[static_cast<int>(a.axis)]), 4);
          check_case({Cat(to_string(dtype), " ", shape.str()),
                      Op::kTopK,
                      make_attrs<TopKAttrs>(a),
                      {random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -9, 9, 3),
                       test::tensor(DType::kI64, Shape{1}, {k})},
                      {false, true},
                      std::vector<ValueType>(2)},
                     "vulkan:top_k");
        }
}

TEST_F(VulkanOrder, Sort) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (bool descending : {false, true}) {
    SortAttrs a;
    a.descending = descending;
    for (size_t outputs : {1u, 2u})
      for (const Shape& shape : kShapes)
        check_case({shape.str(),
                    Op::kSort,
                    make_attrs<SortAttrs>(a),
                    {random_tensor(DType::kF32, shape, -9, 9, 3)},
                    {},
                    std::vector<ValueType>(outputs)},
                   "vulkan:sort");
    check_case({"not a number",
                Op::kSort,
                make_attrs<SortAttrs>(a),
                {test::floats(Shape{7}, {1, nan, -inf, 3, nan, inf, 1})},
                {},
                std::vector<ValueType>(2)},
               "vulkan:sort");
  }
}

TEST_F(VulkanOrder, LongRows) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kI16})
    for (bool descending : {false, true})
      for (const Shape& shape : {Shape{1025, 3}, Shape{9000}, Shape{2, 4096, 2}}) {
        SortAttrs a;
        a.axis = shape.rank() == 3 ? 1 : 0;
        a.descending = descending;
        check_case({Cat(to_string(dtype), " ", shape.str()),
                    Op::kSort,
                    make_attrs<SortAttrs>(a),
                    {random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -99, 99, 3)},
                    {},
                    std::vector<ValueType>(2)},
                   "vulkan:sort");
      }
  TopKAttrs a;
  a.index_dtype = DType::kI32;
  check_case({"top",
              Op::kTopK,
              make_attrs<TopKAttrs>(a),
              {random_tensor(DType::kF32, Shape{3, 50000}, -9, 9, 3), test::tensor(DType::kI64, Shape{1}, {2000})},
              {false, true},
              std::vector<ValueType>(2)},
             "vulkan:top_k");
}

TEST_F(VulkanOrder, TiesInTheOrderOfPyTorch) {
  TopKAttrs a;
  a.torch_order = true;
  for (size_t outputs : {1u, 2u})
    check_case({"",
                Op::kTopK,
                make_attrs<TopKAttrs>(a),
                {random_tensor(DType::kI32, Shape{3, 50}, -9, 9, 3), test::tensor(DType::kI64, Shape{1}, {20})},
                {false, true},
                std::vector<ValueType>(outputs)},
               outputs == 1 ? "vulkan:top_k" : "");
}

}  // namespace
}  // namespace smelt::vulkan
