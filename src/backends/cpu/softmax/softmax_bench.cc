#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/softmax/softmax.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(softmax) {
  const Shape scores{12, 128, 128};
  SoftmaxAttrs strided, fixed;
  strided.axis = 1;
  fixed.rounding = Rounding::kFixedDouble;
  for (const DType t : {DType::kF32, DType::kF16})
    cases.add({Cat("softmax/", to_string(t)),
               Op::kSoftmax,
               make_attrs<SoftmaxAttrs>(),
               {random_tensor(t, scores, -2, 2, 1)}});
  cases.add({"softmax_strided/float32", Op::kSoftmax, make_attrs<SoftmaxAttrs>(strided), {f32(scores)}});
  cases.add({"softmax/qint8",
             Op::kSoftmax,
             make_attrs<SoftmaxAttrs>(fixed),
             {random_quantized(DType::kI8, scores, 0.06f, 4, 1)},
             {},
             {quantized_type(DType::kI8, 1.0f / 256, -128)}});
  Tensor bytes = random_quantized(DType::kI8, scores, 0.06f, 4, 1);
  bytes.set_quant(per_tensor(0.06f, 4));
  cases.add({"softmax_dequantized/qint8",
             Op::kSoftmax,
             make_attrs<SoftmaxAttrs>(),
             {bytes},
             {},
             {ValueType::tensor(DType::kI8, {}, per_tensor(1.0f / 256, -128))}});
}

}  // namespace smelt::bench
