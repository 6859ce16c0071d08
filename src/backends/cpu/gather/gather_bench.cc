#include "bench/kernels/cases.h"
#include "ops/gather/gather.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(gather) {
  Tensor tokens = random_tensor(DType::kI64, {128}, 0, 29999, 2);
  OpCase c{"gather/embedding", Op::kGather, make_attrs<GatherAttrs>(), {f32({30000, 256}), tokens}, {0}};
  cases.add(c, 128 * 256);
}

}  // namespace smelt::bench
