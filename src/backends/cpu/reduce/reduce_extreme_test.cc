#include <limits>

#include "tests/support/cpu_check.h"
#include "tests/support/reduce_case.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ReduceExtreme, TypesAndAxes) {
  for (const DType t : {DType::kI8, DType::kU8, DType::kI16, DType::kU16, DType::kI32, DType::kI64, DType::kF32})
    for (const Reduction fn : {Reduction::kMax, Reduction::kMin})
      for (const auto& axes : {std::vector<int64_t>{0}, {1}, {-1}, {0, 1}, {1, 2}, {}}) {
        const double low = t == DType::kU8 || t == DType::kU16 ? 0 : -120;
        check_on_cpu(reduce_case(fn, random_tensor(t, {3, 7, 291}, low, 120, 1), axes), "reduce_extreme");
      }
}

TEST(ReduceExtreme, ShortRows) {
  for (int64_t n : {1, 2, 31, 32, 64, 65, 127, 128, 129})
    check_on_cpu(reduce_case(Reduction::kMin, random_tensor(DType::kI8, {5, n}, -128, 127, 3), {1}), "reduce_extreme");
}

TEST(ReduceExtreme, Quantized) {
  for (const DType t : {DType::kI8, DType::kU8, DType::kI16})
    for (const Reduction fn : {Reduction::kMax, Reduction::kMin})
      check_on_cpu(reduce_case(fn, random_quantized(t, {2, 9, 70}, 0.05f, t == DType::kI16 ? 0 : 4, 1), {1}),
                   "reduce_extreme");
}

TEST(ReduceExtreme, NotANumberBeatsNumbers) {
  Tensor x = f32({4, 100});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const int64_t i : {0, 163, 299}) x.data<float>()[i] = nan;
  for (const Reduction fn : {Reduction::kMax, Reduction::kMin})
    for (const int64_t axis : {0, 1}) check_on_cpu(reduce_case(fn, x, {axis}), "reduce_extreme");
}

}  // namespace
}  // namespace smelt
