#include "bench/kernels/cases.h"
#include "ops/sort/sort.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(sort) {
  OpCase few{"topk/5_of_1000", Op::kTopK, make_attrs<TopKAttrs>(), {f32({16, 1000}), i64({5})}, {1}};
  OpCase many{"topk/300_of_100000", Op::kTopK, make_attrs<TopKAttrs>(), {f32({1, 100000}), i64({300})}, {1}};
  for (OpCase* c : {&few, &many}) {
    c->outputs.resize(2);
    cases.add(*c);
  }
}

}  // namespace smelt::bench
