#include "bench/kernels/cases.h"
#include "ops/detection/detection.h"

namespace smelt::bench {
using namespace smelt::test;

/// MobileNet-SSD.
SMELT_BENCH_CASES(detection) {
  constexpr int64_t kBoxes = 1917, kClasses = 90;
  DetectionAttrs a;
  a.classes = kClasses;
  a.score_threshold = 0.3;
  a.iou_threshold = 0.6;
  cases.add({"detection_postprocess/ssd_u8",
             Op::kDetectionPostprocess,
             make_attrs<DetectionAttrs>(a),
             {random_quantized(DType::kU8, {1, kBoxes, 4}, 0.05f, 128, 1),
              random_quantized(DType::kU8, {1, kBoxes, kClasses + 1}, 1.0f / 256, 0, 2),
              random_tensor(DType::kF32, {kBoxes, 4}, 0.2, 0.8, 3)},
             {2}},
            static_cast<double>(kBoxes * kClasses));
  cases.add(
      {"nms_f32/ssd",
       Op::kNonMaxSuppression,
       make_attrs<NmsAttrs>(),
       {random_tensor(DType::kF32, {1, kBoxes, 4}, 0, 1, 1), random_tensor(DType::kF32, {1, kClasses, kBoxes}, 0, 1, 2),
        i64({20}), floats({}, {0.5}), floats({}, {0.9})},
       {2}},
      static_cast<double>(kBoxes * kClasses));
}

}  // namespace smelt::bench
