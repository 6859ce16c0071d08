#include "ops/gather/gather.h"

#include "base/cat.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(Gather, DynamicIndices) {
  for (int64_t axis : {0, 1, 2}) {
    auto attrs = std::make_shared<GatherAttrs>();
    attrs->axis = axis;
    OpCase c{Cat("axis ", axis),
             Op::kGather,
             attrs,
             {random_tensor(DType::kF32, {4, 5, 6}, -9, 9, 1), i64({1, -1, 3, 0})},
             {0}};
    check_on_cpu(c, "gather");
  }
}

TEST(Gather, SlicesOfAnySize) {
  for (const DType t : {DType::kI8, DType::kI16, DType::kF32, DType::kI64})
    for (const Shape& x : {Shape{7, 9}, Shape{9, 1}, Shape{2, 9, 3}}) {
      auto attrs = std::make_shared<GatherAttrs>();
      attrs->axis = x[0] == 9 ? 0 : 1;
      OpCase c{Cat(to_string(t), " ", x.str()),
               Op::kGather,
               attrs,
               {random_tensor(t, x, -9, 9, 1), i64({8, -9, 3, 3})},
               {0}};
      check_on_cpu(c, "gather");
    }
}

}  // namespace
}  // namespace smelt
