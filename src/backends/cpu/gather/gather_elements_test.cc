#include "base/cat.h"
#include "ops/gather/gather.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

AttrsPtr along(int64_t axis) {
  GatherAttrs a;
  a.axis = axis;
  return make_attrs<GatherAttrs>(a);
}

TEST(GatherElements, AlongEachDimension) {
  for (const DType t : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (const DType index : {DType::kI32, DType::kI64})
      for (const int64_t axis : {0, 1, 2, -1}) {
        // Other dimensions of the indices may be smaller.
        const Shape at = axis == 0 ? Shape{9, 5, 4} : axis == 1 ? Shape{3, 11, 6} : Shape{2, 5, 13};
        check_on_cpu({Cat(to_string(t), ' ', to_string(index), " axis ", axis),
                      Op::kGatherElements,
                      along(axis),
                      {random_tensor(t, {4, 5, 6}, -9, 9, 1), random_tensor(index, at, -4, 3, 2)}},
                     "gather_elements");
      }
  check_on_cpu(
      {"many rows", Op::kGatherElements, along(-1), {f32({300, 70}), random_tensor(DType::kI64, {300, 50}, 0, 69, 2)}},
      "gather_elements");
}

TEST(GatherElements, IndexOutside) {
  for (const int64_t index : {4, -5})
    check_fails({"outside", Op::kGatherElements, along(0), {f32({4, 3}), i64({0, 1, index}).reshaped({1, 3})}});
}

}  // namespace
}  // namespace smelt
