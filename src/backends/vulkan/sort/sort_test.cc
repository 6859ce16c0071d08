#include <limits>

#include "ops/sort/sort.h"
#include "tests/support/vulkan_check.h"

namespace smelt::vulkan {
namespace {

class VulkanSort : public VulkanTest {};

Tensor whole(int64_t k) { return tensor(DType::kI64, Shape{1}, {static_cast<double>(k)}); }

const std::vector<Shape> kShapes = {Shape{1}, Shape{6, 5, 3}, Shape{2, 33, 2}, Shape{3, 1000}};

TEST_F(VulkanSort, TopK) {
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
          check_on_gpu(
              {Cat(to_string(dtype), " ", shape.str()),
               Op::kTopK,
               make_attrs<TopKAttrs>(a),
               {random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -9, 9, 3), tensor(DType::kI64, Shape{1}, {k})},
               {1},
               std::vector<ValueType>(2)},
              "top_k");
        }
}

TEST_F(VulkanSort, Sort) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (bool descending : {false, true}) {
    SortAttrs a;
    a.descending = descending;
    for (size_t outputs : {1u, 2u})
      for (const Shape& shape : kShapes)
        check_on_gpu({shape.str(),
                      Op::kSort,
                      make_attrs<SortAttrs>(a),
                      {random_tensor(DType::kF32, shape, -9, 9, 3)},
                      {},
                      std::vector<ValueType>(outputs)},
                     "sort");
    check_on_gpu({"not a number",
                  Op::kSort,
                  make_attrs<SortAttrs>(a),
                  {floats(Shape{7}, {1, nan, -inf, 3, nan, inf, 1})},
                  {},
                  std::vector<ValueType>(2)},
                 "sort");
  }
}

TEST_F(VulkanSort, LongRows) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kI16})
    for (bool descending : {false, true})
      for (const Shape& shape : {Shape{1025, 3}, Shape{9000}, Shape{2, 4096, 2}}) {
        SortAttrs a;
        a.axis = shape.rank() == 3 ? 1 : 0;
        a.descending = descending;
        check_on_gpu({Cat(to_string(dtype), " ", shape.str()),
                      Op::kSort,
                      make_attrs<SortAttrs>(a),
                      {random_tensor(dtype, shape, dtype == DType::kU8 ? 0 : -99, 99, 3)},
                      {},
                      std::vector<ValueType>(2)},
                     "sort");
      }
  TopKAttrs a;
  a.index_dtype = DType::kI32;
  check_on_gpu({"top",
                Op::kTopK,
                make_attrs<TopKAttrs>(a),
                {random_tensor(DType::kF32, Shape{3, 50000}, -9, 9, 3), tensor(DType::kI64, Shape{1}, {2000})},
                {1},
                std::vector<ValueType>(2)},
               "top_k");
}

/// Selections by parts and by heaps of many and of no equal elements, sorted and as they were left.
TEST_F(VulkanSort, TiesInTheOrderOfPyTorch) {
  struct Case {
    Shape shape;
    int64_t axis, keep;
    double range;
  };
  const Case cases[] = {{Shape{3, 50}, 1, 20, 9},      {Shape{3, 50}, 1, 50, 3},  {Shape{2, 300, 3}, 1, 3, 20},
                        {Shape{5, 3}, 1, 2, 1},        {Shape{400}, 0, 150, 99},  {Shape{400}, 0, 150, 0},
                        {Shape{2, 2, 128}, -1, 8, 99}, {Shape{640, 1}, 0, 10, 4}, {Shape{7}, 0, 1, 2}};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kI32, DType::kI64, DType::kI8, DType::kU8, DType::kI16})
    for (const Case& k : cases)
      for (bool largest : {false, true})
        for (bool sorted : {false, true}) {
          if (dtype != DType::kF32 && sorted != largest) continue;
          TopKAttrs a;
          a.torch_order = true;
          a.axis = k.axis;
          a.largest = largest;
          a.sorted = sorted;
          Tensor x = random_tensor(dtype, k.shape, dtype == DType::kU8 ? 0 : -k.range, k.range, 3);
          if (is_float(dtype) && x.elements() > 20) set_double(x, 11, NAN), set_double(x, 13, NAN);
          check_on_gpu({Cat(to_string(dtype), " ", k.shape.str(), " ", k.keep),
                        Op::kTopK,
                        make_attrs<TopKAttrs>(a),
                        {x, whole(k.keep)},
                        {1},
                        std::vector<ValueType>(2)},
                       "top_k");
        }
}

/// In falling and rising order, in waves, and values alone.
TEST_F(VulkanSort, TiesOfPatterns) {
  for (int pattern = 0; pattern < 4; ++pattern)
    for (int64_t keep : {4, 100, 256}) {
      TopKAttrs a;
      a.torch_order = true;
      Tensor x(DType::kI32, Shape{256});
      for (int32_t i = 0; i < 256; ++i)
        x.data<int32_t>()[i] = pattern == 0 ? i : pattern == 1 ? -i : pattern == 2 ? i % 16 : (i < 128 ? i : 255 - i);
      for (size_t outputs : {1u, 2u})
        check_on_gpu({Cat("pattern ", pattern, " ", keep),
                      Op::kTopK,
                      make_attrs<TopKAttrs>(a),
                      {x, whole(keep)},
                      {1},
                      std::vector<ValueType>(outputs)},
                     "top_k");
    }
  TopKAttrs a;
  a.torch_order = true;
  check_on_gpu({"too long for one invocation",
                Op::kTopK,
                make_attrs<TopKAttrs>(a),
                {random_tensor(DType::kI32, Shape{9000}, -9, 9, 3), whole(200)},
                {1},
                std::vector<ValueType>(2)},
               "");
}

}  // namespace
}  // namespace smelt::vulkan
