#include "bench/kernels/cases.h"
#include "ops/sort/sort.h"

namespace smelt::bench {
using namespace smelt::testing;

SMELT_BENCH_CASES(sort) {
  KernelCase c{"topk/5_of_1000", Op::kTopK, make_attrs<TopKAttrs>(), {f32({16, 1000}), i64({5})}};
  c.others.resize(1);
  cases.add(c);
}

}  // namespace smelt::bench
