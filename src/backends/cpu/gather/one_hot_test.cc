#include "base/cat.h"
#include "ops/gather/gather.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(OneHot, AxesTypesAndIndicesOutOfRange) {
  for (const DType index : {DType::kI32, DType::kI64, DType::kF32})
    for (const DType type : {DType::kF32, DType::kI64, DType::kI16, DType::kU8})
      for (const int64_t axis : {-1, 0, 1})
        for (const bool wraps : {false, true}) {
          OneHotAttrs a;
          a.axis = axis;
          a.wrap_negative = wraps;
          check_on_cpu({Cat(to_string(index), ' ', to_string(type), " axis ", axis),
                        Op::kOneHot,
                        make_attrs<OneHotAttrs>(a),
                        {random_tensor(index, {6, 7}, -13, 13, 1), i64({11}), tensor(type, {2}, {3, 5})},
                        {1},
                        {ValueType::tensor(type)}},
                       "one_hot");
        }
}

TEST(OneHot, ValuesApart) {
  check_on_cpu({"off value",
                Op::kOneHot,
                make_attrs<OneHotAttrs>(),
                {i64({0, 2, -1, 5}), i64({4}), floats({}, {7}), floats({}, {-1})},
                {1}},
               "one_hot");
}

}  // namespace
}  // namespace smelt
