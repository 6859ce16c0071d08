#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ReduceF32, SumsOfSquaresAndTheirRoots) {
  for (const Reduction fn : {Reduction::kSumSquare, Reduction::kL2})
    for (const int64_t n : {1, 5, 33, 1500}) {
      auto attrs = std::make_shared<ReduceAttrs>();
      attrs->fn = fn;
      check_on_cpu({Cat("n ", n), Op::kReduce, attrs, {f32({3, 2, n}), i64({-1})}, {1}}, "reduce_f32");
    }
}

TEST(ReduceF32, FunctionsAndAxes) {
  const std::vector<int64_t> lists[] = {{1, 2}, {-1}, {0}, {0, 1, 2, 3}, {2}, {0, 2}};
  for (Reduction fn : {Reduction::kSum, Reduction::kMean, Reduction::kMax, Reduction::kSumSquare, Reduction::kL2})
    for (const auto& axes : lists)
      for (bool keep : {false, true}) {
        auto attrs = std::make_shared<ReduceAttrs>();
        attrs->fn = fn;
        attrs->keep_dims = keep;
        OpCase c{Cat(to_string(fn), " over ", axes.size(), " from ", axes[0]),
                 Op::kReduce,
                 attrs,
                 {f32({2, 7, 9, 33}), i64(axes)},
                 {1}};
        check_on_cpu(c, "", {2e-5, 1e-5});
      }
}

}  // namespace
}  // namespace smelt
