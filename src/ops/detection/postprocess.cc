#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "ops/common/operands.h"
#include "ops/core/op.h"
#include "ops/detection/arrays.h"
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

struct Detection {
  int64_t box, label;
  float score;
};

struct Candidate {
  float score;
  int64_t box;
};

/// Everything that the two ways of selecting work on.
struct Scene {
  Box* boxes;
  int64_t count;            ///< of boxes
  const float* all_scores;  ///< [boxes, columns]
  int64_t columns;          ///< classes, and one more in front when there is a background class
  int64_t offset;           ///< 1 with a background class
  float* scores;            ///< of each box, one
  Candidate* heap;          ///< [count]
  Box* chosen;
  int64_t* selected;
  int64_t* order;       ///< of classes
  Detection* found[2];  ///< of all classes so far; before the last one
};

/// How many there are of what detect() works on, at most.
struct Extents {
  Extents(const DetectionAttrs& a, int64_t boxes)
      : selected(std::min(a.regular_nms ? a.detections_per_class : a.max_detections, boxes)),
        found(a.regular_nms ? std::min(a.max_detections, selected * a.classes) + selected : 0) {}
  int64_t selected, found;
};

/// Gives a scene its arrays.
void lay_out(const DetectionAttrs& a, Scene& s, Arrays& arrays) {
  const Extents e(a, s.count);
  s.boxes = arrays.take<Box>(s.count);
  s.scores = arrays.take<float>(s.count);
  s.heap = arrays.take<Candidate>(s.count);
  s.chosen = arrays.take<Box>(e.selected);
  s.selected = arrays.take<int64_t>(e.selected);
  s.order = arrays.take<int64_t>(a.classes);
  for (Detection*& found : s.found) found = arrays.take<Detection>(e.found);
}

Status decode_boxes(const DetectionAttrs& a, const DetectionInputs& in, Box* boxes) {
  const auto ys = static_cast<float>(a.y_scale), xs = static_cast<float>(a.x_scale);
  const auto hs = static_cast<float>(a.h_scale), ws = static_cast<float>(a.w_scale);
  for (int64_t i = 0; i < in.boxes; ++i) {
    const float* code = in.codes + i * in.width;
    const float* anchor = in.anchors + i * 4;  // centre y, centre x, height, width
    const float y = code[0] / ys * anchor[2] + anchor[0], x = code[1] / xs * anchor[3] + anchor[1];
    const float half_h = 0.5f * static_cast<float>(std::exp(code[2] / hs)) * anchor[2];
    const float half_w = 0.5f * static_cast<float>(std::exp(code[3] / ws)) * anchor[3];
    const Box& box = boxes[i] = {y - half_h, x - half_w, y + half_h, x + half_w};
    if (box.y_min >= box.y_max || box.x_min >= box.x_max) return InvalidInput("box ", i, " has no area");
  }
  return Ok();
}

/// The first `keep` of `order` become the indices of scores in falling order; ties: lower index first.
void best_first(const float* scores, int64_t n, int64_t keep, int64_t* order) {
  std::iota(order, order + n, int64_t{0});
  std::partial_sort(order, order + keep, order + n,
                    [&](int64_t a, int64_t b) { return scores[a] > scores[b] || (scores[a] == scores[b] && a < b); });
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

/// Greedy suppression of the boxes by s.scores. Returns how many are in s.selected.
Result<int64_t> suppress(KernelContext& ctx, const DetectionAttrs& a, const Scene& s, int64_t most) {
  Candidate* end = s.heap;  // the highest score on top, none of them NaN; ties: lower index first
  for (int64_t i = 0; i < s.count; ++i)
    if (s.scores[i] >= static_cast<float>(a.score_threshold)) *end++ = {s.scores[i], i};
  const auto behind = [](const Candidate& p, const Candidate& q) {
    return p.score < q.score || (p.score == q.score && p.box > q.box);
  };
  std::make_heap(s.heap, end, behind);
  most = std::min<int64_t>(most, end - s.heap);
  int64_t count = 0;
  while (end != s.heap && count < most) {
    const int64_t candidate = s.heap->box;
    std::pop_heap(s.heap, end--, behind);
    const Box& box = s.boxes[candidate];
    const bool covered = std::ranges::any_of(s.chosen, s.chosen + count, [&](const Box& other) {
      return touch(other, box) && overlap(other, box) > static_cast<float>(a.iou_threshold);
    });
    if (covered) continue;
    SMELT_TRY(ctx.tick());
    s.selected[count] = candidate;
    s.chosen[count++] = box;
  }
  return count;
}

/// Writes detections to the node's outputs.
struct Writer {
  KernelContext& ctx;
  const Scene& scene;
  void operator()(int64_t i, const Detection& d) const {
    const Box& box = scene.boxes[d.box];
    if (ctx.wants(0)) {
      float* to = ctx.output(0).data<float>() + i * 4;
      to[0] = box.y_min, to[1] = box.x_min, to[2] = box.y_max, to[3] = box.x_max;
    }
    if (ctx.wants(1)) ctx.output(1).data<float>()[i] = static_cast<float>(d.label);
    if (ctx.wants(2)) ctx.output(2).data<float>()[i] = d.score;
  }
};

/// Each class on its own; the best detections of all classes stay. Returns how many.
Result<int64_t> regular(KernelContext& ctx, const DetectionAttrs& a, Scene& s) {
  int64_t count = 0;
  for (int64_t c = 0; c < a.classes; ++c) {
    for (int64_t i = 0; i < s.count; ++i) s.scores[i] = s.all_scores[i * s.columns + c + s.offset];
    SMELT_ASSIGN(const int64_t more, suppress(ctx, a, s, a.detections_per_class));
    std::swap(s.found[0], s.found[1]);
    const Detection* before = s.found[1];
    for (int64_t i = 0, k = 0, taken = 0; taken < count + more; ++taken) {
      // Of equal scores those of the classes before come first.
      const bool own = k < more && (i == count || s.scores[s.selected[k]] > before[i].score);
      s.found[0][taken] = own ? Detection{s.selected[k], c, s.scores[s.selected[k]]} : before[i];
      ++(own ? k : i);
    }
    count = std::min(count + more, a.max_detections);
  }
  const Writer write{ctx, s};
  for (int64_t i = 0; i < std::min(count, a.max_detections * a.max_classes_per_detection); ++i) write(i, s.found[0][i]);
  return count;
}

/// Boxes by their best class; each with its best classes, up to as many as there are. Returns how many boxes.
Result<int64_t> fast(KernelContext& ctx, const DetectionAttrs& a, const Scene& s) {
  const int64_t per_box = std::min(a.max_classes_per_detection, a.classes);
  const auto scores_of = [&](int64_t box) { return s.all_scores + box * s.columns + s.offset; };
  for (int64_t i = 0; i < s.count; ++i) s.scores[i] = largest(scores_of(i), a.classes);
  SMELT_ASSIGN(const int64_t count, suppress(ctx, a, s, a.max_detections));
  const Writer write{ctx, s};
  for (int64_t i = 0; i < count; ++i) {
    const float* const scores = scores_of(s.selected[i]);
    best_first(scores, a.classes, per_box, s.order);
    for (int64_t k = 0; k < per_box; ++k)
      write(i * a.max_classes_per_detection + k, {s.selected[i], s.order[k], scores[s.order[k]]});
  }
  return count;
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

size_t detection_bytes(const DetectionAttrs& a, int64_t boxes) {
  Scene s{.count = boxes};
  Arrays arrays;
  lay_out(a, s, arrays);
  return arrays.bytes();
}

Status detect(KernelContext& ctx, const DetectionAttrs& a, const DetectionInputs& in, std::byte* memory) {
  Scene s{.count = in.boxes, .all_scores = in.scores, .columns = in.columns, .offset = in.columns - a.classes};
  Arrays arrays(memory);
  lay_out(a, s, arrays);
  SMELT_TRY(decode_boxes(a, in, s.boxes));
  for (int i = 0; i < 4; ++i)
    if (ctx.wants(i) && ctx.output(i).bytes() > 0) std::memset(ctx.output(i).raw(), 0, ctx.output(i).bytes());
  SMELT_ASSIGN(const int64_t count, a.regular_nms ? regular(ctx, a, s) : fast(ctx, a, s));
  if (ctx.wants(3)) ctx.output(3).data<float>()[0] = static_cast<float>(count);
  return Ok();
}

Status reference_DetectionPostprocess(KernelContext& ctx) {
  std::vector<float> values[3];
  for (int i = 0; i < 3; ++i) {
    values[i].resize(static_cast<size_t>(ctx.input(i).elements()));
    SMELT_TRY(real_values(ctx.input(i), values[i].data()));
  }
  const DetectionInputs in{.codes = values[0].data(),
                           .scores = values[1].data(),
                           .anchors = values[2].data(),
                           .boxes = ctx.input(0).dim(1),
                           .width = ctx.input(0).dim(2),
                           .columns = ctx.input(1).dim(2)};
  const auto& a = ctx.attrs<DetectionAttrs>();
  void* const memory = ctx.scratch(detection_bytes(a, in.boxes));
  if (!memory) return LimitReached("no memory to select among ", in.boxes, " boxes");
  return detect(ctx, a, in, static_cast<std::byte*>(memory));
}

}  // namespace smelt
