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
  lstm.dynamic_quantization = true;
  OpCase bytes{"lstm/dynamic_qint8", Op::kRecurrent, make_attrs<RecurrentAttrs>(lstm)};
  bytes.inputs = {f32({kSteps, 1, kFeatures}), random_quantized(DType::kI8, {4 * kHidden, kFeatures}, 0.004f, 0, 2),
                  random_quantized(DType::kI8, {4 * kHidden, kHidden}, 0.004f, 0, 3), f32({1, 8 * kHidden}, 4)};
  bytes.constants = {1, 2, 3};
  bytes.outputs.resize(3);
  cases.add(bytes, 2.0 * kSteps * 4 * kHidden * (kFeatures + kHidden));
  constexpr int64_t kUnits = 64, kMemory = 8;
  OpCase svdf{"svdf/qint8", Op::kTfSvdf, make_attrs<TfSvdfAttrs>()};
  svdf.inputs = {random_quantized(DType::kI8, {1, 96}, 0.05f, -7, 1),
                 random_quantized(DType::kI8, {kUnits, 96}, 0.02f, 0, 2),
                 random_quantized(DType::kI16, {kUnits, kMemory}, 1e-4f, 0, 3), Tensor(),
                 random_quantized(DType::kI16, {1, kUnits * kMemory}, 1e-3f, 0, 5)};
  svdf.constants = {1, 2};
  svdf.outputs[0] = quantized_type(DType::kI8, 0.4f, 5);
  cases.add(svdf, 2.0 * kUnits * (96 + kMemory));
  TfLstmAttrs integer;
  integer.sequence = true;
  integer.intermediates.resize(5);
  integer.intermediates[4] = quantized_type(DType::kI8, 0.0077f, -3);
  constexpr int64_t kTime = 49, kInputs = 40, kCells = 80;
  OpCase steps{"lstm/qint8", Op::kTfLstm, make_attrs<TfLstmAttrs>(integer), std::vector<Tensor>(24)};
  steps.inputs[0] = random_quantized(DType::kI8, {1, kTime, kInputs}, 0.03f, -5, 1);
  for (const size_t g : {0, 1, 2, 3}) {
    steps.inputs[1 + g] = random_quantized(DType::kI8, {kCells, kInputs}, 0.004f, 0, 2);
    steps.inputs[5 + g] = random_quantized(DType::kI8, {kCells, kCells}, 0.006f, 0, 3);
    steps.inputs[12 + g] = random_tensor(DType::kI32, {kCells}, -3000, 3000, 4);
    for (const size_t i : {1 + g, 5 + g, 12 + g}) steps.constants.push_back(i);
  }
  steps.inputs[18] = random_quantized(DType::kI8, {1, kCells}, 0.0077f, -3, 5);
  steps.inputs[19] = random_quantized(DType::kI16, {1, kCells}, 0x1p-11f, 0, 6);
  steps.outputs = {quantized_type(DType::kI8, 0.0077f, -3), {}, {}};
  cases.add(steps, 2.0 * kTime * 4 * kCells * (kInputs + kCells));
}

}  // namespace smelt::bench
