#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/reduce/reduce.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(reduce) {
  const auto reduce = [&](Reduction fn, const Tensor& x, const std::vector<int64_t>& axes, const ValueType& y = {}) {
    ReduceAttrs a;
    a.fn = fn;
    a.rounding = Rounding::kFixedDouble;
    cases.add({Cat(to_string(fn), '/', to_string(x.dtype()), x.shape().str()),
               Op::kReduce,
               make_attrs<ReduceAttrs>(a),
               {x, i64(axes)},
               {1},
               {y}});
  };
  const Shape image{1, 7, 7, 1280};
  reduce(Reduction::kMean, f32(image), {1, 2});
  reduce(Reduction::kL2, f32(image), {1, 2});
  reduce(Reduction::kMax, f32({128, 768}), {1});
  reduce(Reduction::kMean, random_tensor(DType::kF16, image, -2, 2, 1), {1, 2});
  reduce(Reduction::kMean, random_quantized(DType::kI8, image, 0.05f, -10, 1), {1, 2},
         quantized_type(DType::kI8, 0.02f, 3));
  reduce(Reduction::kMax, random_tensor(DType::kI64, {128, 768}, -1000, 1000, 1), {1});
  const Tensor bytes = random_quantized(DType::kI8, image, 0.05f, -10, 1);
  reduce(Reduction::kMin, bytes, {1, 2}, ValueType::tensor(DType::kI8, {}, bytes.quant()));
  ArgReduceAttrs arg;
  arg.axis = 1;
  cases.add({"argmax",
             Op::kArgReduce,
             make_attrs<ArgReduceAttrs>(arg),
             {f32({4096, 21})},
             {},
             {ValueType::tensor(DType::kI64)}});
  cases.add({"cumulative_sum", Op::kCumulative, make_attrs<CumulativeAttrs>(), {f32({16, 1024, 64}), i64({1})}, {1}});
  cases.add({"cumulative_sum/int64",
             Op::kCumulative,
             make_attrs<CumulativeAttrs>(),
             {random_tensor(DType::kI64, {16, 1024, 64}, -9, 9, 1), i64({1})},
             {1}});
  for (const DType t : {DType::kI64, DType::kF64}) reduce(Reduction::kSum, random_tensor(t, {128, 768}, -9, 9, 1), {1});
  reduce(Reduction::kAny, random_tensor(DType::kBool, {128, 768}, 0, 1, 1), {1}, ValueType::tensor(DType::kBool));
}

}  // namespace smelt::bench
