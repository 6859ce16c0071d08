#include "base/cat.h"
#include "ops/elementwise/elementwise.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(FixedScale, TypesAxesAndShifts) {
  Tensor x = random_tensor(DType::kI32, {2, 7, 45}, -2e9, 2e9, 1);
  for (int64_t i = 0; i < x.elements(); i += 3) x.data<int32_t>()[i] /= 1 << 12;
  x.data<int32_t>()[0] = INT32_MIN;
  x.data<int32_t>()[1] = INT32_MAX;
  for (const DType to : {DType::kI8, DType::kU8, DType::kI16})
    for (const int64_t axis : {-1, 0, 1, 2})
      for (const int64_t zero : {0, -3, 100}) {
        FixedScaleAttrs a;
        const auto channels = static_cast<size_t>(axis < 0 ? 1 : x.dim(static_cast<int>(axis)));
        for (size_t c = 0; c < channels; ++c) {
          a.multipliers.push_back(c == 3 ? 0 : (int64_t{1} << 30) + static_cast<int64_t>(c) * 7919);
          a.shifts.push_back(static_cast<int64_t>(c * 5 % 35) - 31);  // -31 to 3
        }
        a.axis = axis < 0 ? 0 : axis;
        a.zero_point = zero;
        a.to = to;
        a.min = to == DType::kU8 ? 0 : -100;
        a.max = 127;
        OpCase c{
            Cat(to_string(to), " axis ", axis, " zero ", zero), Op::kFixedScale, make_attrs<FixedScaleAttrs>(a), {x}};
        c.threaded = true;
        check_on_cpu(c, axis == 2 ? "" : "fixed_scale");
      }
}

}  // namespace
}  // namespace smelt
