#include <algorithm>
#include <cmath>
#include <limits>

#include "base/cat.h"
#include "ops/detection/detection.h"
#include "tests/support/cpu_check.h"

namespace smelt {
namespace {
using namespace smelt::test;

constexpr float kInf = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// Boxes of which many overlap. Some are the same, have no area, or reach to where numbers end.
Tensor boxes_of(const Shape& shape) {
  Tensor boxes = random_tensor(DType::kF32, shape, 0, 4, 1);
  auto* b = boxes.data<float>();
  const int64_t n = boxes.elements() / 4;
  for (int64_t i = 0; i < n; ++i) {
    if (i % 7 == 3) std::copy(b + (i - 1) * 4, b + i * 4, b + i * 4);
    if (i % 11 == 5) b[i * 4 + 2] = b[i * 4];
    if (i % 13 == 6) b[i * 4 + i % 4] = i % 3 == 0 ? kInf : i % 3 == 1 ? -kInf : kNan;
  }
  return boxes;
}

/// Scores of which many are equal, both zeros among them. Some are infinite or no number.
Tensor scores_of(const Shape& shape) {
  Tensor scores = random_tensor(DType::kF32, shape, -0.5, 1, 2);
  auto* s = scores.data<float>();
  for (int64_t i = 0; i < scores.elements(); ++i) {
    if (i % 2 == 0) s[i] = std::trunc(s[i] * 16) / 16;
    if (i % 19 == 7) s[i] = i % 3 == 0 ? kInf : i % 3 == 1 ? -kInf : kNan;
  }
  return scores;
}

TEST(NmsF32, ImagesAndClasses) {
  for (const int64_t boxes : {1, 15, 37, 300, 2000})
    for (const bool center : {false, true})
      for (const double iou : {-0.5, 0.0, 0.3, 0.7, 1.0, std::nan("")})
        for (const double score : {-1e300, 0.1, 2.0}) {
          NmsAttrs a;
          a.center = center;
          const int64_t most = boxes > 300 ? 120 : boxes / 3 + 1;
          OpCase c{Cat(boxes, " boxes, overlap ", iou, ", scores above ", score),
                   Op::kNonMaxSuppression,
                   make_attrs<NmsAttrs>(a),
                   {boxes_of({2, boxes, 4}), scores_of({2, 3, boxes}), i64({most}), tensor(DType::kF64, {}, {iou}),
                    tensor(DType::kF64, {}, {score})},
                   {2}};
          c.threaded = true;
          check_on_cpu(c, "nms_f32");
        }
}

TEST(NmsF32, FewOfManyBoxesAreSelected) {
  for (const int64_t most : {1, 5}) {
    OpCase c{Cat(most, " of a class"),
             Op::kNonMaxSuppression,
             make_attrs<NmsAttrs>(),
             {boxes_of({1, 5000, 4}), scores_of({1, 2, 5000}), i64({most}), floats({}, {0.25})},
             {2}};
    check_on_cpu(c, "nms_f32");
  }
}

TEST(NmsF32, FormsOfTflite) {
  for (const auto form : {NmsAttrs::Form::kTflite4, NmsAttrs::Form::kTflite5})
    for (const int64_t boxes : {1, 40, 500})
      for (const double iou : {0.0, 0.4, 1.0})
        for (const double sigma : {0.0, 0.5}) {
          NmsAttrs a;
          a.form = form;
          const bool soft = form == NmsAttrs::Form::kTflite5;
          if (!soft && sigma > 0) continue;
          OpCase c{Cat(soft ? "soft, " : "hard, ", boxes, " boxes, overlap ", iou, ", sigma ", sigma),
                   Op::kNonMaxSuppression,
                   make_attrs<NmsAttrs>(a),
                   {boxes_of({boxes, 4}), scores_of({boxes}), tensor(DType::kI32, {}, {60}), floats({}, {iou}),
                    floats({}, {0.05})},
                   {2}};
          if (soft) c.inputs.push_back(floats({}, {sigma}));
          c.outputs.resize(soft ? 3 : 2);
          check_on_cpu(c, "nms_f32", Tolerance(0));
        }
}

}  // namespace
}  // namespace smelt
