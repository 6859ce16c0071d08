#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(CumulativeSumInteger, AxesAndDirections) {
  for (const DType type : {DType::kI32, DType::kI64})
    for (const Shape& shape : {Shape{3, 50, 7}, Shape{1, 1, 5}, Shape{4, 3, 33}})
      for (const int64_t axis : {0, 1, -1})
        for (int form = 0; form < 4; ++form) {
          CumulativeAttrs a;
          a.exclusive = form & 1;
          a.reverse = form & 2;
          OpCase c{Cat(to_string(type), shape.str(), " axis ", axis, " form ", form),
                   Op::kCumulative,
                   make_attrs<CumulativeAttrs>(a),
                   {random_tensor(type, shape, -2e9, 2e9, 1), i64({axis})},
                   {1}};
          c.threaded = true;
          check_on_cpu(c, "cumulative_sum_integer");
        }
}

}  // namespace
}  // namespace smelt
