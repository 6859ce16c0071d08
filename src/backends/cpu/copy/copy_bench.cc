#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/shape/shape.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(copy) {
  const Shape block{1, 56, 56, 24};
  TransposeAttrs perm;
  perm.perm = {0, 3, 1, 2};
  cases.add({"transpose/nhwc_to_nchw", Op::kTranspose, make_attrs<TransposeAttrs>(perm), {f32({1, 56, 56, 64})}});
  perm.perm = {0, 2, 3, 1};
  cases.add({"transpose/nchw_to_nhwc_128", Op::kTranspose, make_attrs<TransposeAttrs>(perm), {f32({1, 64, 128, 128})}});
  AxisAttrs last;
  last.axis = -1;
  OpCase concat{"concat/float32", Op::kConcat, make_attrs<AxisAttrs>(last), {f32(block), f32(block, 2)}};
  cases.add(concat);
  concat.label = "concat/qint8";
  concat.inputs = {random_quantized(DType::kI8, block, 0.05f, 3, 1), random_quantized(DType::kI8, block, 0.07f, 3, 2)};
  concat.outputs[0] = quantized_type(DType::kI8, 0.07f, 3);
  cases.add(concat);
  cases.add({"pad/float32", Op::kPad, make_attrs<PadAttrs>(), {f32(block), i64({0, 1, 1, 0, 0, 1, 1, 0})}, {1}});
}

}  // namespace smelt::bench
