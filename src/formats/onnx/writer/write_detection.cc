// Detection: selection of boxes.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/onnx/writer/op_writers.h"
#include "ops/detection/detection.h"

namespace smelt::onnx {
namespace {

void write_nms(NodeWriter& n) {
  const auto& a = n.attrs<NmsAttrs>();
  if (a.form == NmsAttrs::Form::kOnnx) {
    std::vector<Name> in{n.in(0), n.in(1), n.has(2) ? n.in_i64(2) : kNoName, n.in(3), n.in(4)};
    return n.bind_raw(0, n.op("NonMaxSuppression", in, {{"center_point_box", a.center}}));
  }
  if (a.form != NmsAttrs::Form::kTflite4) return n.fail("soft suppression");
  // One class of one image; the list of indices is filled up with zeros.
  const Name limit = n.reshape(n.in_i64(2), {1});
  const Name chosen = n.op("NonMaxSuppression", {n.unsqueeze(n.in(0), {0}), n.unsqueeze(n.in(1), {0, 1}), limit,
                                                 n.reshape(n.in(3), {1}), n.reshape(n.in(4), {1})});
  const Name index = n.squeeze(n.slice(chosen, 2, 3, 1), {1});
  const Name count = n.op("Shape", {index});
  const Name zeros = n.op("ConstantOfShape", {n.op("Sub", {limit, count})}, {{"value", Tensor(DType::kI64, Shape{1})}});
  n.bind_raw(0, n.cast(n.op("Concat", {index, zeros}, {{"axis", int64_t{0}}}), n.out_type(0).dtype));
  if (n.wants(1)) n.bind_raw(1, n.cast(n.reshape(count, {}), n.out_type(1).dtype));
}

/// What TFLite_Detection_PostProcess selects, in ONNX's operators.
class Postprocess {
 public:
  Postprocess(NodeWriter& n, const DetectionAttrs& a) : n_(n), a_(a) {}

  void write() {
    const int64_t columns = n_.type(1).shape[2];
    Name scores = n_.in(1);
    if (columns > a_.classes) scores = n_.slice(scores, columns - a_.classes, columns, 2);
    boxes_ = decoded();
    a_.regular_nms ? by_class(scores) : by_box(scores);
  }

 private:
  Name op(const char* name, std::vector<Name> in) { return n_.op(name, in); }
  Name i64(int64_t value) { return n_.i64({value}); }
  Name length(Name x) { return n_.slice(op("Shape", {x}), 0, 1, 0); }
  Name column(Name rows, int64_t k) { return n_.squeeze(n_.slice(rows, k, k + 1, 1), {1}); }
  Name gathered(Name x, Name places) { return n_.op("Gather", {x, places}, {{"axis", int64_t{0}}}); }

  /// Corners (y1, x1, y2, x2) [1, n, 4] of boxes, whose encodings count from anchors: centre y, centre x, height,
  /// width.
  Name decoded() {
    const int64_t n = n_.type(0).shape[1];
    const auto floats = [&](double y, double x) { return n_.floats({static_cast<float>(y), static_cast<float>(x)}); };
    const Name codes = n_.in(0), all = n_.in(2), anchors = n_.type(2).shape[0] > n ? n_.slice(all, 0, n, 0) : all;
    const Name size = n_.slice(anchors, 2, 4, 1);
    const Name moved = op("Mul", {op("Div", {n_.slice(codes, 0, 2, 2), floats(a_.y_scale, a_.x_scale)}), size});
    const Name centre = op("Add", {moved, n_.slice(anchors, 0, 2, 1)});
    const Name grown = op("Exp", {op("Div", {n_.slice(codes, 2, 4, 2), floats(a_.h_scale, a_.w_scale)})});
    const Name half = op("Mul", {op("Mul", {n_.scalar(DType::kF32, 0.5), grown}), size});
    return n_.op("Concat", {op("Sub", {centre, half}), op("Add", {centre, half})}, {{"axis", int64_t{2}}});
  }

  /// Rows (0, class, box) of what is kept of scores [1, c, n]. TFLite keeps scores from the threshold on, ONNX above
  /// it.
  Name suppressed(Name scores, int64_t most) {
    const float threshold = std::nextafter(static_cast<float>(a_.score_threshold), -INFINITY);
    return op("NonMaxSuppression",
              {boxes_, scores, i64(most), n_.floats({static_cast<float>(a_.iou_threshold)}), n_.floats({threshold})});
  }

  /// Each class on its own; the best detections of all classes stay.
  void by_class(Name scores) {
    const Name of_class = n_.transpose(scores, {0, 2, 1});
    const Name rows = suppressed(of_class, a_.detections_per_class);
    const Name values = op("GatherND", {of_class, rows});
    const Name count = op("Min", {i64(a_.max_detections), length(rows)});
    const auto best = n_.ops("TopK", {values, count}, 2, {{"axis", int64_t{0}}});
    const Name all = n_.squeeze(boxes_, {0}), boxes = gathered(all, gathered(column(rows, 2), best[1]));
    bind(boxes, gathered(column(rows, 1), best[1]), best[0], count);
  }

  /// Boxes by their best class; each with its best classes.
  void by_box(Name scores) {
    const int64_t k = std::min(a_.max_classes_per_detection, a_.classes), none = a_.max_classes_per_detection - k;
    const Name best = n_.unsqueeze(n_.reduce("ReduceMax", scores, {2}, false), {1});
    const Name places = column(suppressed(best, a_.max_detections), 2);
    const auto own = n_.ops("TopK", {gathered(n_.squeeze(scores, {0}), places), i64(k)}, 2, {{"axis", int64_t{1}}});
    Name boxes = n_.unsqueeze(gathered(n_.squeeze(boxes_, {0}), places), {1});
    if (k > 1) boxes = op("Tile", {boxes, n_.i64({1, k, 1})});
    // Places of classes that do not exist hold zeros.
    const auto filled = [&](Name x) { return none > 0 ? op("Pad", {x, n_.i64({0, 0, 0, none})}) : x; };
    if (none > 0) boxes = op("Pad", {boxes, n_.i64({0, 0, 0, 0, none, 0})});
    const auto flat = [&](Name x) { return n_.reshape(filled(x), {-1}); };
    const Name corners = n_.reshape(boxes, {-1, 4}), labels = flat(own[1]), values = flat(own[0]);
    bind(corners, labels, values, length(places));
  }

  /// Results [slots] with zeros behind those that were found.
  void bind(Name boxes, Name labels, Name scores, Name count) {
    const int64_t slots = a_.max_detections * a_.max_classes_per_detection;
    const Name missing = op("Sub", {i64(slots), length(scores)});
    const auto padded = [&](Name x, int64_t rank) {
      std::vector<Name> pads{n_.i64(std::vector<int64_t>(static_cast<size_t>(rank), 0)), missing};
      if (rank > 1) pads.push_back(i64(0));
      return n_.unsqueeze(op("Pad", {x, n_.op("Concat", pads, {{"axis", int64_t{0}}})}), {0});
    };
    n_.bind(0, padded(boxes, 2));
    n_.bind(1, n_.cast(padded(labels, 1), DType::kF32));
    n_.bind(2, padded(scores, 1));
    n_.bind(3, n_.cast(count, DType::kF32));
  }

  NodeWriter& n_;
  const DetectionAttrs& a_;
  Name boxes_ = kNoName;
};

void write_detection_postprocess(NodeWriter& n) {
  for (int i = 0; i < 3; ++i)
    if (!n.is_static(i)) return n.fail("the shape of input ", i, " must be known");
  Postprocess(n, n.attrs<DetectionAttrs>()).write();
}

constexpr OpWriter kDetection[] = {
    {Op::kNonMaxSuppression, write_nms, "NonMaxSuppression"},
    {Op::kDetectionPostprocess, write_detection_postprocess, "NonMaxSuppression, TopK, Gather, ..."},
};

}  // namespace

std::span<const OpWriter> detection_writers() { return kDetection; }

}  // namespace smelt::onnx
