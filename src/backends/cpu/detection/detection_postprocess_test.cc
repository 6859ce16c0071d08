#include "base/cat.h"
#include "ops/detection/detection.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

TEST(DetectionPostprocess, TypesAndSelections) {
  constexpr int64_t kBoxes = 37, kClasses = 5;
  for (const bool regular : {false, true})
    for (const bool background : {false, true})
      for (const DType type : {DType::kF32, DType::kU8, DType::kI8}) {
        DetectionAttrs a;
        a.classes = kClasses;
        a.regular_nms = regular;
        a.max_detections = 7;
        a.max_classes_per_detection = regular ? 1 : 2;
        a.score_threshold = 0.2;
        const Shape scores{1, kBoxes, kClasses + (background ? 1 : 0)};
        OpCase c{Cat(to_string(type), regular ? " regular" : " fast", background ? " background" : ""),
                 Op::kDetectionPostprocess,
                 make_attrs<DetectionAttrs>(a),
                 {},
                 {2}};
        const Tensor anchors = random_tensor(DType::kF32, {kBoxes, 4}, 0.2, 0.8, 3);
        if (type == DType::kF32) {
          c.inputs = {random_tensor(type, {1, kBoxes, 4}, -2, 2, 1), random_tensor(type, scores, 0, 1, 2), anchors};
        } else {
          const int32_t zero = type == DType::kU8 ? 128 : 0;
          c.inputs = {random_quantized(type, {1, kBoxes, 4}, 0.02f, zero, 1),
                      random_quantized(type, scores, 1.0f / 256, zero - 128, 2), anchors};
        }
        c.outputs.resize(4);
        check_on_cpu(c, "detection_postprocess");
      }
}

}  // namespace
}  // namespace smelt
