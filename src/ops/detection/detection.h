#pragma once

#include "ops/common/enum_names.h"
#include "ops/common/enums.h"
#include "smelt/tensor.h"

namespace smelt {

struct NmsAttrs : Attrs {
  enum class Form : uint8_t {
    kOnnx,     ///< boxes [B, N, 4], scores [B, C, N], max_per_class?, iou?, score_threshold? -> [selected, 3]
    kTflite4,  ///< boxes, scores, max, iou, score_threshold -> indices (padded), valid count
    kTflite5,  ///< ... and sigma (soft NMS) -> indices, scores, valid count
  } form = Form::kOnnx;
  bool center = false;  ///< boxes are centre x, centre y, width, height
  friend SMELT_ENUM_NAMES(Form, "onnx", "tflite_v4", "tflite_v5");
  SMELT_FIELDS(form, center)
};

/// TFLite_Detection_PostProcess.
struct DetectionAttrs : Attrs {
  int64_t max_detections = 10, max_classes_per_detection = 1, detections_per_class = 100, classes = 1;
  bool regular_nms = false;
  double score_threshold = 0, iou_threshold = 0.5, y_scale = 10, x_scale = 10, h_scale = 5, w_scale = 5;
  SMELT_FIELDS(max_detections, max_classes_per_detection, detections_per_class, classes, regular_nms, score_threshold,
               iou_threshold, y_scale, x_scale, h_scale, w_scale)
};

/// The affine map from the pixels of a crop to those of an image, such that the crop shows a group of landmarks
/// upright.
struct LandmarksMatrixAttrs : Attrs {
  /// False: MediaPipe's Landmarks2TransformMatrix version 1, whose map goes through coordinates in [-1, 1] and which
  /// knows angles up to a half turn. True: version 2.
  bool version2 = false;
  int64_t left = 0, right = 0;  ///< landmarks whose connection becomes level
  std::vector<int64_t> subset;  ///< landmarks that the crop shows
  int64_t crop_height = 1, crop_width = 1;
  double scale_x = 1, scale_y = 1;                       ///< the crop's size in units of the subset's
  int64_t image_height = 1, image_width = 1, range = 1;  ///< version 1; landmarks lie in [0, range]
  double rotation = 0;                                   ///< version 2: angle of the connection in the crop
  SMELT_FIELDS(version2, left, right, subset, crop_height, crop_width, scale_x, scale_y, image_height, image_width,
               range, rotation)
};

struct GridPriorsAttrs : Attrs {
  int64_t stride = 1;
  double offset = 0.5;
  SMELT_FIELDS(stride, offset)
};

}  // namespace smelt
