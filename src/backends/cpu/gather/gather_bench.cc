#include "bench/kernels/cases.h"
#include "ops/gather/gather.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(gather) {
  Tensor tokens = random_tensor(DType::kI64, {128}, 0, 29999, 2);
  OpCase c{"gather/embedding", Op::kGather, make_attrs<GatherAttrs>(), {f32({30000, 256}), tokens}, {0}};
  cases.add(c, 128 * 256);
  Tensor table = random_tensor(DType::kI8, {30000, 256}, -127, 127, 3);
  table.set_quant(per_tensor(0.01f, 0));
  OpCase rows_of_bytes{"embedding_lookup/int8", Op::kEmbeddingLookup, make_attrs<NoAttrs>(), {tokens, table}, {1}};
  rows_of_bytes.outputs = {ValueType::tensor(DType::kF32)};
  cases.add(rows_of_bytes, 128 * 256);
  GatherAttrs last;
  last.axis = -1;
  cases.add({"gather_elements/relative_positions",
             Op::kGatherElements,
             make_attrs<GatherAttrs>(last),
             {f32({12, 128, 256}), random_tensor(DType::kI64, {12, 128, 128}, 0, 255, 2)}});
  const Tensor tuples = random_tensor(DType::kI64, {16, 4, 33, 3}, 0, 15, 2);
  cases.add({"scatter_nd/elements",
             Op::kScatterND,
             make_attrs<ScatterAttrs>(),
             {f32({16, 16, 33}), tuples, f32({16, 4, 33})}});
  cases.add({"gather_nd/elements", Op::kGatherND, make_attrs<GatherAttrs>(), {f32({16, 16, 33}), tuples}});
  const Shape updates{5000, 64};
  ScatterAttrs sum;
  sum.axis = 0;
  sum.reduction = ScatterAttrs::Reduce::kAdd;
  cases.add({"scatter_elements/sum",
             Op::kScatterElements,
             make_attrs<ScatterAttrs>(sum),
             {f32({1000, 64}), random_tensor(DType::kI64, updates, 0, 999, 2), f32(updates)}});
  const Tensor rows = random_tensor(DType::kI32, {128, 1}, 0, 511, 2);
  cases.add(
      {"scatter_new/rows", Op::kScatterNew, make_attrs<NoAttrs>(), {rows, f32({128, 256}), i64({512, 256})}, {2}});
  const Tensor symbols = random_tensor(DType::kI32, {1, 1024}, 0, 256, 2);
  cases.add({"one_hot/float32", Op::kOneHot, make_attrs<OneHotAttrs>(), {symbols, i64({257}), f32({2})}, {1}});
}

}  // namespace smelt::bench
