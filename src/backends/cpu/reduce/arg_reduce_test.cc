#include <limits>

#include "base/cat.h"
#include "ops/reduce/reduce.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

/// Few different values, so that there are ties.
Tensor with_ties(DType t) {
  Tensor x = random_tensor(t, {3, 7, 300}, t == DType::kU8 ? 0 : -4, 4, 1);
  if (t != DType::kF32) return x;
  for (int64_t i = 0; i < x.elements(); ++i) x.data<float>()[i] = std::round(x.data<float>()[i]);
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const float odd[] = {nan, 0.0f, -0.0f, inf, -inf, nan, nan};
  for (int64_t i = 0; i < 7; ++i) x.data<float>()[301 * i] = odd[i];
  return x;
}

TEST(ArgReduce, TypesAxesAndTies) {
  for (const DType t : {DType::kF32, DType::kI8, DType::kU8, DType::kI16, DType::kI32, DType::kI64})
    for (const DType to : {DType::kI32, DType::kI64})
      for (int64_t axis : {0, 1, 2, -1})
        for (int form = 0; form < 8; ++form) {
          ArgReduceAttrs a;
          a.axis = axis;
          a.min = form & 1;
          a.select_last = form & 2;
          a.flatten = form & 4;
          a.to = to;
          OpCase c{Cat(to_string(t), " axis ", axis, " form ", form),
                   Op::kArgReduce,
                   make_attrs<ArgReduceAttrs>(a),
                   {with_ties(t)}};
          c.outputs[0].dtype = to;
          c.threaded = true;
          check_on_cpu(c, "arg_reduce");
        }
}

TEST(ArgReduce, LinesOfAnyLength) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int64_t n = 13; n < 100; ++n)
    for (int form = 0; form < 4; ++form) {
      ArgReduceAttrs a;
      a.axis = 1;
      a.min = form & 1;
      a.select_last = form & 2;
      a.to = DType::kI64;
      Tensor x = random_tensor(DType::kF32, {8, n}, -9, 9, static_cast<uint32_t>(n));
      auto* v = x.data<float>();
      const float most = a.min ? -10 : 10;
      v[0] = v[n - 1] = v[n] = v[3 * n - 1] = v[3 * n + n / 2] = v[3 * n + n / 2 + 1] = most;
      v[4 * n + n - 1] = v[5 * n] = v[6 * n + n / 3] = v[6 * n + n - 2] = nan;
      const OpCase c{Cat(n, " form ", form), Op::kArgReduce, make_attrs<ArgReduceAttrs>(a), {std::move(x)}};
      check_on_cpu(c, "arg_reduce");
    }
}

}  // namespace
}  // namespace smelt
