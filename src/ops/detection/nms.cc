#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <numeric>
#include <queue>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/detection/boxes.h"
#include "ops/detection/detection.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kMaxBoxes = int64_t{1} << 28;

/// A scalar input as a real number; absent: `fallback`.
Result<double> number_of(const KernelContext& ctx, int i, double fallback) {
  if (!ctx.has(i)) return fallback;
  const Tensor& t = ctx.input(i);
  if (t.elements() < 1) return InvalidInput("input ", i, " is empty, a number expected");
  return is_float(t.dtype()) ? get_double(t, 0) : static_cast<double>(get_int(t, 0));
}

Box box_at(const float* b, bool center) {
  if (!center) return ordered({b[0], b[1], b[2], b[3]});
  // Centre x, centre y, width, height.
  return ordered({b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2});
}

/// Boxes that have been selected. Once there are many they are kept by the stretches of one axis that they reach into,
/// and a box is compared with those alone that reach into a stretch of its own: classes whose boxes lie apart cost
/// little.
class SelectedBoxes {
 public:
  /// all: the boxes that may be selected.
  explicit SelectedBoxes(const std::vector<Box>& all) : all_(all) {}
  void add(const Box& b) {
    constexpr size_t kFew = 64;
    if (stretches_.empty()) {
      wide_.push_back(b);
      if (wide_.size() == kFew) make_stretches();
      return;
    }
    const size_t first = stretch(from(b)), last = stretch(to(b));
    if (last - first >= kMostStretches) {
      wide_.push_back(b);
      return;
    }
    for (size_t i = first; i <= last; ++i) stretches_[i].push_back(b);
  }
  /// True if one of them overlaps the box by more than a threshold >= 0.
  bool overlap_more(const Box& b, double threshold) const {
    if (any(wide_, b, threshold)) return true;
    if (stretches_.empty()) return false;
    for (size_t i = stretch(from(b)), last = stretch(to(b)); i <= last; ++i)
      if (any(stretches_[i], b, threshold)) return true;
    return false;
  }

 private:
  static constexpr size_t kMostStretches = 8;  ///< of one box; larger ones are compared with all
  /// Divides the axis along which boxes are shorter, measured by the extent of all.
  void make_stretches() {
    constexpr double kNone = std::numeric_limits<double>::infinity();
    double least[2] = {kNone, kNone}, most[2] = {-kNone, -kNone}, sizes[2] = {0, 0};
    for (const Box& b : all_) {
      const double from[2] = {b.y_min, b.x_min}, to[2] = {b.y_max, b.x_max};
      for (const size_t axis : {0, 1}) {
        if (!std::isfinite(from[axis]) || !std::isfinite(to[axis])) continue;
        least[axis] = std::min(least[axis], from[axis]);
        most[axis] = std::max(most[axis], to[axis]);
        sizes[axis] += to[axis] - from[axis];
      }
    }
    by_x_ = (most[1] - least[1]) * sizes[0] > (most[0] - least[0]) * sizes[1];
    const double extent = most[by_x_] - least[by_x_];
    if (!(extent > 0) || !std::isfinite(extent)) return;
    stretches_.resize(std::clamp<size_t>(all_.size() / 8, 1, 512));
    begin_ = least[by_x_];
    per_unit_ = static_cast<double>(stretches_.size()) / extent;
    const std::vector<Box> few = std::move(wide_);
    wide_.clear();
    for (const Box& b : few) add(b);
  }
  double from(const Box& b) const { return by_x_ ? b.x_min : b.y_min; }
  double to(const Box& b) const { return by_x_ ? b.x_max : b.y_max; }
  size_t stretch(double at) const {
    const double i = (at - begin_) * per_unit_;
    return i > 0 ? static_cast<size_t>(std::min(i, static_cast<double>(stretches_.size() - 1))) : 0;
  }
  /// Boxes that do not touch overlap by 0.
  static bool any(const std::vector<Box>& boxes, const Box& b, double threshold) {
    return std::any_of(boxes.begin(), boxes.end(),
                       [&](const Box& other) { return touch(b, other) && overlap(b, other) > threshold; });
  }

  const std::vector<Box>& all_;
  bool by_x_ = false;
  double begin_ = 0, per_unit_ = 0;
  std::vector<std::vector<Box>> stretches_;
  std::vector<Box> wide_;  ///< few, or those that reach into many stretches
};

/// The boxes of one class, best score first, that overlap no better one by more than `iou_threshold`.
Status select_class(KernelContext& ctx, const std::vector<Box>& boxes, const float* scores, int64_t most,
                    double iou_threshold, double score_threshold, std::vector<int64_t>& selected) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < boxes.size(); ++i)
    if (scores[i] > score_threshold) order.push_back(static_cast<int64_t>(i));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
  selected.clear();
  SelectedBoxes better(boxes);
  for (int64_t i : order) {
    if (static_cast<int64_t>(selected.size()) >= most) break;
    SMELT_TRY(ctx.tick());
    const Box& box = boxes[static_cast<size_t>(i)];
    // Below a negative threshold there is no overlap.
    if (iou_threshold >= 0 ? better.overlap_more(box, iou_threshold) : iou_threshold < 0 && !selected.empty()) continue;
    selected.push_back(i);
    better.add(box);
  }
  return Ok();
}

Status run_onnx(KernelContext& ctx) {
  const Tensor &boxes = ctx.input(0), &scores = ctx.input(1);
  const int64_t batches = boxes.dim(0), n = boxes.dim(1), classes = scores.dim(1);
  SMELT_ASSIGN(const double most, number_of(ctx, 2, 0));
  SMELT_ASSIGN(const double iou_threshold, number_of(ctx, 3, 0));
  SMELT_ASSIGN(const double score_threshold, number_of(ctx, 4, -std::numeric_limits<double>::infinity()));
  const bool center = ctx.attrs<NmsAttrs>().center;
  std::vector<int64_t> rows, selected;
  if (boxes.elements() > 0 && scores.elements() > 0 && most > 0) {
    std::vector<float> corners(static_cast<size_t>(boxes.elements())), values(static_cast<size_t>(scores.elements()));
    to_floats(boxes, corners.data());
    to_floats(scores, values.data());
    std::vector<Box> own(static_cast<size_t>(n));
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < n; ++i)
        own[static_cast<size_t>(i)] = box_at(&corners[static_cast<size_t>((b * n + i) * 4)], center);
      for (int64_t c = 0; c < classes; ++c) {
        SMELT_TRY(select_class(ctx, own, &values[static_cast<size_t>((b * classes + c) * n)],
                               static_cast<int64_t>(std::min(most, 1e9)), iou_threshold, score_threshold, selected));
        for (int64_t i : selected) rows.insert(rows.end(), {b, c, i});
      }
    }
  }
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kI64, Shape{static_cast<int64_t>(rows.size()) / 3, 3}));
  from_ints(rows.data(), *y);
  return Ok();
}

struct Candidate {
  int64_t index;
  float score;
  int64_t compared;  ///< selected boxes that it has been compared with already
};

/// TFLite's selection: hard suppression at iou_threshold; with sigma > 0 scores of overlapping boxes decay (soft NMS).
/// As in TFLite, a selected box stays a candidate until its overlap with itself suppresses it; a box without area is
/// selected repeatedly.
Status select_soft(KernelContext& ctx, const std::vector<Box>& boxes, const std::vector<float>& scores, int64_t most,
                   float iou_threshold, float score_threshold, float sigma, std::vector<int64_t>& selected,
                   std::vector<float>& kept_scores) {
  const auto worse = [](const Candidate& a, const Candidate& b) { return a.score < b.score; };
  std::priority_queue<Candidate, std::deque<Candidate>, decltype(worse)> queue(worse);
  for (size_t i = 0; i < scores.size(); ++i)
    if (scores[i] > score_threshold) queue.push({static_cast<int64_t>(i), scores[i], 0});
  const int64_t wanted = std::min<int64_t>(static_cast<int64_t>(queue.size()), most);
  const float decay = sigma > 0 ? -0.5f / sigma : 0;
  while (static_cast<int64_t>(selected.size()) < wanted && !queue.empty()) {
    SMELT_TRY(ctx.tick());
    Candidate next = queue.top();
    queue.pop();
    const float original = next.score;
    bool suppressed = false;
    for (auto j = static_cast<int64_t>(selected.size()) - 1; j >= next.compared; --j) {
      const float iou =
          overlap(boxes[static_cast<size_t>(next.index)], boxes[static_cast<size_t>(selected[static_cast<size_t>(j)])]);
      if (iou >= iou_threshold) {
        suppressed = true;
        break;
      }
      if (sigma > 0) next.score = next.score * std::exp(decay * iou * iou);
      if (next.score <= score_threshold) break;
    }
    next.compared = static_cast<int64_t>(selected.size());
    if (suppressed) continue;
    if (next.score == original) {
      selected.push_back(next.index);
      kept_scores.push_back(next.score);
    }
    if (next.score > score_threshold) queue.push(next);
  }
  return Ok();
}

Status run_tflite(KernelContext& ctx, bool soft) {
  const Tensor &boxes = ctx.input(0), &scores = ctx.input(1);
  const int64_t n = boxes.dim(0);
  SMELT_ASSIGN(const double most, number_of(ctx, 2, 0));
  SMELT_ASSIGN(const double iou_threshold, number_of(ctx, 3, 0));
  SMELT_ASSIGN(const double score_threshold, number_of(ctx, 4, 0));
  SMELT_ASSIGN(const double sigma, number_of(ctx, 5, 0));
  if (!(most >= 0 && most < 2147483648.0)) return InvalidInput("a maximum of ", most, " boxes");
  if (!(iou_threshold >= 0)) return InvalidInput("an overlap threshold of ", iou_threshold);
  if (!(sigma >= 0)) return InvalidInput("a sigma of ", sigma);
  std::vector<float> corners(static_cast<size_t>(boxes.elements())), values(static_cast<size_t>(n));
  to_floats(boxes, corners.data());
  to_floats(scores, values.data());
  std::vector<Box> own;
  for (int64_t i = 0; i < n; ++i) own.push_back(box_at(&corners[static_cast<size_t>(i * 4)], false));
  std::vector<int64_t> selected;
  std::vector<float> kept;
  const auto slots = static_cast<int64_t>(most);
  SMELT_TRY(select_soft(ctx, own, values, slots, static_cast<float>(iou_threshold), static_cast<float>(score_threshold),
                        static_cast<float>(sigma), selected, kept));
  const auto count = static_cast<int64_t>(selected.size());
  if (ctx.wants(0)) {
    SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kI32, Shape{slots}));
    for (int64_t i = 0; i < slots; ++i)
      y->data<int32_t>()[i] = i < count ? static_cast<int32_t>(selected[static_cast<size_t>(i)]) : 0;
  }
  if (soft && ctx.wants(1)) {
    SMELT_ASSIGN(Tensor * y, ctx.allocate(1, DType::kF32, Shape{slots}));
    for (int64_t i = 0; i < slots; ++i) y->data<float>()[i] = i < count ? kept[static_cast<size_t>(i)] : 0;
  }
  const int last = soft ? 2 : 1;
  if (!ctx.wants(last)) return Ok();
  SMELT_ASSIGN(Tensor * y, ctx.allocate(last, DType::kI32, Shape{}));
  y->data<int32_t>()[0] = static_cast<int32_t>(count);
  return Ok();
}

Status infer_onnx(InferContext& ctx) {
  const ValueType &boxes = ctx.input(0), &scores = ctx.input(1);
  if (boxes.ranked && scores.ranked) {
    if (boxes.shape.rank() != 3 || scores.shape.rank() != 3)
      return InvalidModel("boxes and scores have ranks ", boxes.shape.rank(), " and ", scores.shape.rank(),
                          ", 3 expected");
    const auto differ = [](int64_t a, int64_t b) { return a >= 0 && b >= 0 && a != b; };
    if (differ(boxes.shape[2], 4) || differ(boxes.shape[0], scores.shape[0]) || differ(boxes.shape[1], scores.shape[2]))
      return InvalidModel("boxes of shape ", boxes.shape.str(), " and scores of shape ", scores.shape.str());
  }
  ctx.set(0, ValueType::tensor(DType::kI64, Shape{-1, 3}));
  return Ok();
}

}  // namespace

Status infer_NonMaxSuppression(InferContext& ctx) {
  SMELT_TRY(need_tensors(ctx, 2));
  const auto form = ctx.attrs<NmsAttrs>().form;
  if (form == NmsAttrs::Form::kOnnx) return infer_onnx(ctx);
  const ValueType &boxes = ctx.input(0), &scores = ctx.input(1);
  if (boxes.ranked && scores.ranked) {
    if (boxes.shape.rank() != 2 || scores.shape.rank() != 1)
      return InvalidModel("boxes and scores have ranks ", boxes.shape.rank(), " and ", scores.shape.rank());
    if ((boxes.shape[1] >= 0 && boxes.shape[1] != 4) ||
        (boxes.shape[0] >= 0 && scores.shape[0] >= 0 && boxes.shape[0] != scores.shape[0]))
      return InvalidModel("boxes of shape ", boxes.shape.str(), " and scores of shape ", scores.shape.str());
    if (boxes.shape[0] > kMaxBoxes) return LimitReached(boxes.shape[0], " boxes");
  }
  const Shape slots{std::max<int64_t>(int_of(ctx, 2).value_or(-1), -1)};
  ctx.set(0, ValueType::tensor(DType::kI32, slots));
  const bool soft = form == NmsAttrs::Form::kTflite5;
  if (soft) ctx.set(1, ValueType::tensor(DType::kF32, slots));
  ctx.set(soft ? 2 : 1, ValueType::tensor(DType::kI32, Shape{}));
  return Ok();
}

Status reference_NonMaxSuppression(KernelContext& ctx) {
  const auto form = ctx.attrs<NmsAttrs>().form;
  if (form == NmsAttrs::Form::kOnnx) return run_onnx(ctx);
  return run_tflite(ctx, form == NmsAttrs::Form::kTflite5);
}

}  // namespace smelt
