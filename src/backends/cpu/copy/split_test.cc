#include "ops/shape/shape.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::testing;

TEST(Split, PiecesOfEveryAxisAndWidth) {
  for (DType dtype : {DType::kI8, DType::kF16, DType::kF32, DType::kI64})
    for (int axis = 0; axis < 3; ++axis) {
      KernelCase c{"halves", Op::kSplit, nullptr, {random_tensor(dtype, {4, 6, 8}, -9, 9, 1)}, {}, {}};
      SplitAttrs halves;
      halves.axis = axis;
      halves.count = 2;
      c.attrs = make_attrs<SplitAttrs>(halves);
      c.others.resize(1);
      check_case(c, "strided_copy", {0, 0});
      c.label = "slices";
      c.op = Op::kUnstack;
      c.attrs = make_attrs<AxisAttrs>(axis);
      c.others.resize(static_cast<size_t>(c.inputs[0].dim(axis) - 1));
      check_case(c, "strided_copy", {0, 0});
    }
}

}  // namespace
}  // namespace smelt
