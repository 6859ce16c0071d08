#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(ReduceBool, AnyAndAll) {
  for (const Reduction fn : {Reduction::kAny, Reduction::kAll})
    for (const std::vector<int64_t>& axes : {std::vector<int64_t>{2}, {1}, {0, 1}, {0, 1, 2}}) {
      ReduceAttrs a;
      a.fn = fn;
      Tensor x = random_tensor(DType::kBool, {5, 7, 19}, 0, 1, 3);
      for (int64_t i = 0; i < x.elements(); ++i) {  // some slices of one value
        if (i / 19 % 3 == 0) x.data<uint8_t>()[i] = fn == Reduction::kAll;
        if (i % 19 == 4) x.data<uint8_t>()[i] = fn == Reduction::kAll;
      }
      OpCase c{Cat(to_string(fn), axes[0], axes.size()), Op::kReduce, make_attrs<ReduceAttrs>(a), {x, i64(axes)}, {1}};
      c.outputs[0].dtype = DType::kBool;
      check_on_cpu(c, "reduce_bool");
    }
}

}  // namespace
}  // namespace smelt
