#include "bench/kernels/cases.h"
#include "ops/sort/sort.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(sort) {
  OpCase c{"topk/5_of_1000", Op::kTopK, make_attrs<TopKAttrs>(), {f32({16, 1000}), i64({5})}, {1}};
  c.outputs.resize(2);
  cases.add(c);
}

}  // namespace smelt::bench
