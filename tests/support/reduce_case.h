#pragma once

#include <cstdint>
#include <vector>

#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/op_case.h"

namespace smelt::test {

/// A reduction of x over constant axes to its own type, with one thread and several.
inline OpCase reduce_case(Reduction fn, const Tensor& x, const std::vector<int64_t>& axes) {
  ReduceAttrs a;
  a.fn = fn;
  OpCase c{Cat(to_string(fn), ' ', to_string(x.dtype()), x.shape().str()),
           Op::kReduce,
           make_attrs<ReduceAttrs>(a),
           {x, i64(axes)},
           {1},
           {ValueType::tensor(x.dtype(), {}, x.quant())}};
  c.threaded = true;
  return c;
}

}  // namespace smelt::test
