#include "bench/kernels/cases.h"
#include "ops/recurrent/recurrent.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(recurrent) {
  constexpr int64_t kSteps = 32, kFeatures = 64, kHidden = 128;
  RecurrentAttrs lstm;
  lstm.hidden = kHidden;
  OpCase c{"lstm/float32", Op::kRecurrent, make_attrs<RecurrentAttrs>(lstm)};
  c.inputs = {f32({kSteps, 1, kFeatures}), f32({1, 4 * kHidden, kFeatures}, 2), f32({1, 4 * kHidden, kHidden}, 3),
              f32({1, 8 * kHidden}, 4)};
  c.constants = {1, 2, 3};
  c.outputs.resize(3);
  cases.add(c, 2.0 * kSteps * 4 * kHidden * (kFeatures + kHidden));
  constexpr int64_t kUnits = 64, kMemory = 8;
  OpCase svdf{"svdf/qint8", Op::kTfSvdf, make_attrs<TfSvdfAttrs>()};
  svdf.inputs = {random_quantized(DType::kI8, {1, 96}, 0.05f, -7, 1),
                 random_quantized(DType::kI8, {kUnits, 96}, 0.02f, 0, 2),
                 random_quantized(DType::kI16, {kUnits, kMemory}, 1e-4f, 0, 3), Tensor(),
                 random_quantized(DType::kI16, {1, kUnits * kMemory}, 1e-3f, 0, 5)};
  svdf.constants = {1, 2};
  svdf.outputs[0] = quantized_type(DType::kI8, 0.4f, 5);
  cases.add(svdf, 2.0 * kUnits * (96 + kMemory));
}

}  // namespace smelt::bench
