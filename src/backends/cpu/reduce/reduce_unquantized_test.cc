#include <limits>

#include "tests/support/cpu_check.h"
#include "tests/support/reduce_case.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ReduceUnquantized, TypesAndAxes) {
  for (const DType t : {DType::kI32, DType::kI64, DType::kF64})
    for (const Reduction fn : {Reduction::kSum, Reduction::kMean}) {
      if (t != DType::kF64 && fn != Reduction::kSum) continue;
      for (const auto& axes : {std::vector<int64_t>{0}, {1}, {-1}, {0, 1}, {1, 2}, {}})
        check_on_cpu(reduce_case(fn, random_tensor(t, {3, 7, 91}, -3, 3, 1), axes), "reduce_unquantized",
                     {1e-12, 1e-12});
    }
}

TEST(ReduceUnquantized, SumsWrap) {
  for (const Shape& shape : {Shape{2, 40}, Shape{40, 2}}) {
    Tensor x = random_tensor(DType::kI32, shape, 0, 0, 1);
    for (int i = 0; i < 80; ++i) x.data<int32_t>()[i] = std::numeric_limits<int32_t>::max() - i;
    check_on_cpu(reduce_case(Reduction::kSum, x, {shape[0] == 2 ? 1 : 0}), "reduce_unquantized");
  }
}

TEST(ReduceUnquantized, MeansOfIntegersRunElsewhere) {
  check_on_cpu(reduce_case(Reduction::kMean, random_tensor(DType::kI64, {4, 9}, -9, 9, 1), {1}), "");
}

}  // namespace
}  // namespace smelt
