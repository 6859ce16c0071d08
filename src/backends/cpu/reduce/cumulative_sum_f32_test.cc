#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(CumulativeSumF32, AxesAndDirections) {
  for (const Shape& shape : {Shape{3, 50, 7}, Shape{2, 9, 600}, Shape{1, 1, 5}, Shape{4, 3, 33}})
    for (const int64_t axis : {0, 1, -1})
      for (int form = 0; form < 4; ++form) {
        CumulativeAttrs a;
        a.exclusive = form & 1;
        a.reverse = form & 2;
        OpCase c{Cat(shape.str(), " axis ", axis, " form ", form),
                 Op::kCumulative,
                 make_attrs<CumulativeAttrs>(a),
                 {random_tensor(DType::kF32, shape, -1, 1, 1), i64({axis})},
                 {1}};
        c.threaded = true;
        check_on_cpu(c, "cumulative_sum_f32", {1e-5, 1e-5});
      }
}

TEST(CumulativeSumF32, OtherFunctionsRunElsewhere) {
  CumulativeAttrs a;
  a.fn = CumulativeAttrs::Fn::kProd;
  check_on_cpu({"product", Op::kCumulative, make_attrs<CumulativeAttrs>(a), {f32({3, 4}), i64({1})}, {1}}, "");
}

}  // namespace
}  // namespace smelt
