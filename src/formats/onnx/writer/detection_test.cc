// TFLite_Detection_PostProcess, written as ONNX, read back and run.
#include <gtest/gtest.h>

#include "ops/detection/detection.h"
#include "tests/support/op_case.h"
#include "tests/support/written_model.h"

namespace smelt {
namespace {

constexpr int64_t kBoxes = 40, kClasses = 3;

/// Boxes around anchors on a line, each with scores of a background and three classes.
test::OpCase detections(const DetectionAttrs& a) {
  Tensor anchors(DType::kF32, Shape{kBoxes, 4});
  for (int64_t i = 0; i < kBoxes; ++i) {
    float* at = anchors.data<float>() + 4 * i;
    at[0] = at[1] = 0.05f * static_cast<float>(i);
    at[2] = at[3] = 0.2f;
  }
  test::OpCase c{"detections",
                 Op::kDetectionPostprocess,
                 make_attrs<DetectionAttrs>(a),
                 {test::f32({1, kBoxes, 4}, 3),
                  test::random_tensor(DType::kF32, Shape{1, kBoxes, kClasses + 1}, 0, 1, 4), anchors}};
  c.outputs.resize(4);
  return c;
}

void expect_same(const DetectionAttrs& a) {
  SCOPED_TRACE(a.score_threshold);
  const test::OpCase c = detections(a);
  const auto module = test::OpRunner(c).module();
  ASSERT_TRUE(module.ok()) << module.error().message();
  EXPECT_TRUE(test::expect_same_written(*module, {c.inputs[0], c.inputs[1], c.inputs[2]}, "onnx"));
}

DetectionAttrs attributes() {
  DetectionAttrs a;
  a.classes = kClasses;
  a.max_detections = 6;
  a.iou_threshold = 0.3;
  return a;
}

TEST(OnnxDetection, BoxesByTheirBestClass) {
  for (const int64_t classes : {1, 2, 5}) {
    DetectionAttrs a = attributes();
    a.max_classes_per_detection = classes;
    for (const double threshold : {0.2, 0.98, 2.0}) {
      a.score_threshold = threshold;
      expect_same(a);
    }
  }
}

TEST(OnnxDetection, EachClassOnItsOwn) {
  DetectionAttrs a = attributes();
  a.regular_nms = true;
  a.detections_per_class = 4;
  for (const double threshold : {0.2, 0.98, 2.0}) {
    a.score_threshold = threshold;
    expect_same(a);
  }
}

}  // namespace
}  // namespace smelt
