#include "base/cat.h"
#include "bench/kernels/cases.h"
#include "ops/resize/resize.h"

namespace smelt::bench {
using namespace smelt::test;

SMELT_BENCH_CASES(resize) {
  for (const ResizeAttrs::Mode mode : {ResizeAttrs::Mode::kNearest, ResizeAttrs::Mode::kLinear})
    for (const DType t : {DType::kF32, DType::kF16}) {
      ResizeAttrs a;
      a.mode = mode;
      cases.add({Cat(to_string(mode), "_28_to_56/", to_string(t)),
                 Op::kResize,
                 make_attrs<ResizeAttrs>(a),
                 {random_tensor(t, {1, 28, 28, 64}, -2, 2, 1), Tensor(), Tensor(), i64({1, 56, 56, 64})},
                 {3}});
    }
  cases.add({"grid_28",
             Op::kGridSample,
             make_attrs<GridSampleAttrs>(),
             {f32({1, 64, 28, 28}), random_tensor(DType::kF32, {1, 28, 28, 2}, -1, 1, 2)}});
  cases.add({"pixels_28",
             Op::kSamplePixels,
             make_attrs<SamplePixelsAttrs>(),
             {f32({1, 28, 28, 64}), random_tensor(DType::kF32, {1, 28, 28, 2}, -1, 28, 2)}});
  ResizeAttrs bytes;
  bytes.mode = ResizeAttrs::Mode::kLinear;
  cases.add({"bytes_28_to_56",
             Op::kResize,
             make_attrs<ResizeAttrs>(bytes),
             {random_tensor(DType::kU8, {1, 28, 28, 64}, 0, 255, 1), Tensor(), Tensor(), i64({1, 56, 56, 64})},
             {3}});
  ResizeAttrs a;
  a.mode = ResizeAttrs::Mode::kLinear;
  a.coord = ResizeAttrs::Coord::kAsymmetric;
  a.axes = {1, 2};
  a.tflite = true;
  a.rounding = Rounding::kFixedDouble;
  for (const DType t : {DType::kI8, DType::kU8})
    cases.add({Cat("integer_28_to_56/", to_string(t)),
               Op::kResize,
               make_attrs<ResizeAttrs>(a),
               {random_quantized(t, {1, 28, 28, 64}, 0.1f, 3, 1), Tensor(), Tensor(), i64({56, 56})},
               {3},
               {quantized_type(t, 0.1f, 3)}});
}

}  // namespace smelt::bench
