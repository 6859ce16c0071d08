#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "ops/common/operands.h"
#include "ops/core/op.h"
#include "ops/detection/boxes.h"
#include "ops/detection/detection.h"
#include "ops/detection/postprocess.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kMaxDetections = int64_t{1} << 28;

Status check_attrs(const DetectionAttrs& a) {
  if (a.max_detections < 0 || a.max_detections > kMaxDetections || a.max_classes_per_detection < 1 ||
      a.max_classes_per_detection > kMaxDetections || a.max_detections * a.max_classes_per_detection > kMaxDetections)
    return InvalidModel(a.max_detections, " detections of ", a.max_classes_per_detection, " classes each");
  if (a.classes < 1) return InvalidModel(a.classes, " classes");
  if (a.regular_nms && (a.detections_per_class < 1 || a.detections_per_class > kMaxDetections))
    return InvalidModel(a.detections_per_class, " detections per class");
  if (!(a.iou_threshold > 0 && a.iou_threshold <= 1)) return InvalidModel("an overlap threshold of ", a.iou_threshold);
  if (a.y_scale == 0 || a.x_scale == 0 || a.h_scale == 0 || a.w_scale == 0) return InvalidModel("a scale of 0");
  return Ok();
}

/// Everything that the two ways of selecting work on.
struct Scene {
  std::vector<Box> boxes;
  const float* scores = nullptr;  ///< [boxes, columns]
  int64_t columns = 0;            ///< classes, and one more in front when there is a background class
  int64_t offset = 0;             ///< 1 with a background class
};

struct Detection {
  int64_t box, label;
  float score;
};

Result<std::vector<Box>> decode_boxes(const DetectionAttrs& a, const DetectionInputs& in) {
  const auto ys = static_cast<float>(a.y_scale), xs = static_cast<float>(a.x_scale);
  const auto hs = static_cast<float>(a.h_scale), ws = static_cast<float>(a.w_scale);
  std::vector<Box> boxes;
  boxes.reserve(static_cast<size_t>(in.boxes));
  for (int64_t i = 0; i < in.boxes; ++i) {
    const float* code = in.codes + i * in.width;
    const float* anchor = in.anchors + i * 4;  // centre y, centre x, height, width
    const float y = code[0] / ys * anchor[2] + anchor[0], x = code[1] / xs * anchor[3] + anchor[1];
    const float half_h = 0.5f * static_cast<float>(std::exp(code[2] / hs)) * anchor[2];
    const float half_w = 0.5f * static_cast<float>(std::exp(code[3] / ws)) * anchor[3];
    boxes.push_back({y - half_h, x - half_w, y + half_h, x + half_w});
    if (boxes.back().y_min >= boxes.back().y_max || boxes.back().x_min >= boxes.back().x_max)
      return InvalidInput("box ", i, " has no area");
  }
  return boxes;
}

/// The first `keep` indices of scores in falling order; ties: lower index first.
std::vector<int64_t> best_first(const float* scores, int64_t n, int64_t keep) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::partial_sort(order.begin(), order.begin() + keep, order.end(),
                    [&](int64_t a, int64_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
  return order;
}

/// The largest of n > 0 scores. Four maxima are kept, not to wait for one.
float largest(const float* scores, int64_t n) {
  float most[4] = {scores[0], scores[0], scores[0], scores[0]};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < 4; ++k) most[k] = scores[i + k] > most[k] ? scores[i + k] : most[k];
  for (; i < n; ++i) most[0] = std::max(most[0], scores[i]);
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

/// Greedy suppression of one list of scores.
Status suppress(KernelContext& ctx, const DetectionAttrs& a, const std::vector<Box>& boxes,
                const std::vector<float>& scores, int64_t most, std::vector<int64_t>& selected) {
  struct Candidate {
    float score;
    int64_t box;
  };
  std::vector<Candidate> heap;  // the highest score on top, none of them NaN; ties: lower index first
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] >= static_cast<float>(a.score_threshold)) heap.push_back({scores[i], static_cast<int64_t>(i)});
  const auto behind = [](const Candidate& p, const Candidate& q) {
    return p.score < q.score || (p.score == q.score && p.box > q.box);
  };
  std::make_heap(heap.begin(), heap.end(), behind);
  most = std::min(most, static_cast<int64_t>(heap.size()));
  std::vector<Box> chosen;  // those of `selected`
  selected.clear();
  while (!heap.empty() && static_cast<int64_t>(selected.size()) < most) {
    const int64_t candidate = heap.front().box;
    std::pop_heap(heap.begin(), heap.end(), behind);
    heap.pop_back();
    const Box& box = boxes[static_cast<size_t>(candidate)];
    const bool covered = std::any_of(chosen.begin(), chosen.end(), [&](const Box& other) {
      return touch(other, box) && overlap(other, box) > static_cast<float>(a.iou_threshold);
    });
    if (covered) continue;
    SMELT_TRY(ctx.tick());
    selected.push_back(candidate);
    chosen.push_back(box);
  }
  return Ok();
}

/// Each class on its own; the best detections of all classes stay.
Result<std::vector<Detection>> regular(KernelContext& ctx, const DetectionAttrs& a, const Scene& s) {
  const size_t n = s.boxes.size();
  std::vector<Detection> found;
  std::vector<float> scores(n);
  std::vector<int64_t> selected;
  for (int64_t c = 0; c < a.classes; ++c) {
    for (size_t i = 0; i < n; ++i) scores[i] = s.scores[static_cast<int64_t>(i) * s.columns + c + s.offset];
    SMELT_TRY(suppress(ctx, a, s.boxes, scores, a.detections_per_class, selected));
    const auto middle = static_cast<std::ptrdiff_t>(found.size());
    for (int64_t i : selected) found.push_back({i, c, scores[static_cast<size_t>(i)]});
    std::inplace_merge(found.begin(), found.begin() + middle, found.end(),
                       [](const Detection& x, const Detection& y) { return x.score > y.score; });
    if (static_cast<int64_t>(found.size()) > a.max_detections) found.resize(static_cast<size_t>(a.max_detections));
  }
  return found;
}

/// Boxes by their best class; each with its best classes. Places of classes that do not exist hold a box of -1.
Result<std::vector<Detection>> fast(KernelContext& ctx, const DetectionAttrs& a, const Scene& s) {
  const int64_t per_box = std::min(a.max_classes_per_detection, a.classes);
  const auto scores_of = [&](int64_t box) { return s.scores + box * s.columns + s.offset; };
  std::vector<float> best;
  best.reserve(s.boxes.size());
  for (size_t i = 0; i < s.boxes.size(); ++i) {
    const float* own = scores_of(static_cast<int64_t>(i));
    best.push_back(largest(own, a.classes));
  }
  std::vector<int64_t> selected;
  SMELT_TRY(suppress(ctx, a, s.boxes, best, a.max_detections, selected));
  std::vector<Detection> found;
  for (int64_t box : selected) {
    const auto labels = best_first(scores_of(box), a.classes, per_box);
    for (int64_t k = 0; k < a.max_classes_per_detection; ++k) {
      if (k < per_box)
        found.push_back({box, labels[static_cast<size_t>(k)], scores_of(box)[labels[static_cast<size_t>(k)]]});
      else
        found.push_back({-1, 0, 0});
    }
  }
  return found;
}

}  // namespace

Status infer_DetectionPostprocess(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 3));
  const auto& a = ctx.attrs<DetectionAttrs>();
  SMELT_TRY(check_attrs(a));
  const ValueType &boxes = ctx.input(0), &scores = ctx.input(1), &anchors = ctx.input(2);
  if (boxes.ranked && scores.ranked && anchors.ranked) {
    const Shape &b = boxes.shape, &s = scores.shape, &n = anchors.shape;
    if (b.rank() != 3 || s.rank() != 3 || n.rank() != 2)
      return InvalidModel("ranks ", b.rank(), ", ", s.rank(), " and ", n.rank(), "; 3, 3 and 2 expected");
    if (b.is_static() && s.is_static() && n.is_static()) {
      if (b[0] != 1 || s[0] != 1 || b[2] < 4 || n[1] != 4 || s[1] != b[1] || n[0] < b[1])
        return InvalidModel("box encodings ", b.str(), ", scores ", s.str(), " and anchors ", n.str(), " do not fit");
      if (s[2] != a.classes && s[2] != a.classes + 1)
        return InvalidModel("scores of ", s[2], " classes, ", a.classes, " expected");
    }
  }
  const int64_t n = a.regular_nms ? a.max_detections : a.max_detections * a.max_classes_per_detection;
  const int64_t slots = std::max(n, a.max_detections * a.max_classes_per_detection);
  ctx.set(0, ValueType::tensor(DType::kF32, Shape{1, slots, 4}));
  ctx.set(1, ValueType::tensor(DType::kF32, Shape{1, slots}));
  ctx.set(2, ValueType::tensor(DType::kF32, Shape{1, slots}));
  ctx.set(3, ValueType::tensor(DType::kF32, Shape{1}));
  return Ok();
}

Status detect(KernelContext& ctx, const DetectionAttrs& a, const DetectionInputs& in) {
  Scene s{.scores = in.scores, .columns = in.columns, .offset = in.columns - a.classes};
  SMELT_ASSIGN(s.boxes, decode_boxes(a, in));
  SMELT_ASSIGN(const auto found, a.regular_nms ? regular(ctx, a, s) : fast(ctx, a, s));
  for (int i = 0; i < 4; ++i)
    if (ctx.wants(i) && ctx.output(i).bytes() > 0) std::memset(ctx.output(i).raw(), 0, ctx.output(i).bytes());
  const int64_t slots = a.max_detections * a.max_classes_per_detection;
  for (int64_t i = 0; i < std::min(slots, static_cast<int64_t>(found.size())); ++i) {
    const Detection& d = found[static_cast<size_t>(i)];
    if (d.box < 0) continue;
    const Box& box = s.boxes[static_cast<size_t>(d.box)];
    if (ctx.wants(0)) {
      float* to = ctx.output(0).data<float>() + i * 4;
      to[0] = box.y_min, to[1] = box.x_min, to[2] = box.y_max, to[3] = box.x_max;
    }
    if (ctx.wants(1)) ctx.output(1).data<float>()[i] = static_cast<float>(d.label);
    if (ctx.wants(2)) ctx.output(2).data<float>()[i] = d.score;
  }
  const auto count = static_cast<int64_t>(found.size()) / (a.regular_nms ? 1 : a.max_classes_per_detection);
  if (ctx.wants(3)) ctx.output(3).data<float>()[0] = static_cast<float>(count);
  return Ok();
}

Status reference_DetectionPostprocess(KernelContext& ctx) {
  std::vector<float> values[3];
  for (int i = 0; i < 3; ++i) {
    values[i].resize(static_cast<size_t>(ctx.input(i).elements()));
    SMELT_TRY(real_values(ctx.input(i), values[i].data()));
  }
  return detect(ctx, ctx.attrs<DetectionAttrs>(),
                {.codes = values[0].data(),
                 .scores = values[1].data(),
                 .anchors = values[2].data(),
                 .boxes = ctx.input(0).dim(1),
                 .width = ctx.input(0).dim(2),
                 .columns = ctx.input(1).dim(2)});
}

}  // namespace smelt
