#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "ops/core/op.h"
#include "ops/detection/boxes.h"
#include "ops/detection/detection.h"
#include "ops/detection/nms.h"
#include "ops/shape/rules.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

constexpr int64_t kMaxBoxes = int64_t{1} << 28;

/// Precondition: not empty.
double number_in(const Tensor& t) {
  return is_float(t.dtype()) ? get_double(t, 0) : static_cast<double>(get_int(t, 0));
}

/// A scalar input as a real number; absent: `fallback`.
Result<double> number_of(const KernelContext& ctx, int i, double fallback) {
  if (!ctx.has(i)) return fallback;
  const Tensor& t = ctx.input(i);
  if (t.elements() < 1) return InvalidInput("input ", i, " is empty, a number expected");
  return number_in(t);
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
    return std::ranges::any_of(boxes,
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
  SMELT_ASSIGN(const NmsLimits limits, nms_limits(ctx));
  const bool center = ctx.attrs<NmsAttrs>().center;
  std::vector<int64_t> rows, selected;
  if (boxes.elements() > 0 && scores.elements() > 0 && limits.most > 0) {
    std::vector<float> corners(static_cast<size_t>(boxes.elements())), values(static_cast<size_t>(scores.elements()));
    to_floats(boxes, corners.data());
    to_floats(scores, values.data());
    std::vector<Box> own(static_cast<size_t>(n));
    for (int64_t b = 0; b < batches; ++b) {
      for (int64_t i = 0; i < n; ++i)
        own[static_cast<size_t>(i)] = box_at(&corners[static_cast<size_t>((b * n + i) * 4)], center);
      for (int64_t c = 0; c < classes; ++c) {
        SMELT_TRY(select_class(ctx, own, &values[static_cast<size_t>((b * classes + c) * n)],
                               static_cast<int64_t>(std::min(limits.most, 1e9)), limits.iou_threshold,
                               limits.score_threshold, selected));
        for (int64_t i : selected) rows.insert(rows.end(), {b, c, i});
      }
    }
  }
  SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kI64, Shape{static_cast<int64_t>(rows.size()) / 3, 3}));
  from_ints(rows.data(), *y);
  return Ok();
}

/// The largest slots of TFLite's forms.
constexpr double kMostSlots = 2147483648.0;

Status run_tflite(KernelContext& ctx) {
  const Tensor &boxes = ctx.input(0), &scores = ctx.input(1);
  const int64_t n = boxes.dim(0);
  SMELT_ASSIGN(const NmsLimits limits, nms_limits(ctx));
  std::vector<float> corners(static_cast<size_t>(boxes.elements())), values(static_cast<size_t>(n));
  to_floats(boxes, corners.data());
  to_floats(scores, values.data());
  std::vector<Box> own;
  for (int64_t i = 0; i < n; ++i) own.push_back(box_at(&corners[static_cast<size_t>(i * 4)], false));
  const auto slots = static_cast<int64_t>(limits.most);
  std::vector<NmsCandidate> queue(static_cast<size_t>(n));
  std::vector<int64_t> selected(static_cast<size_t>(std::min(n, slots)));
  std::vector<float> kept(selected.size());
  const NmsSelection s{.boxes = own.data(),
                       .scores = values.data(),
                       .count = n,
                       .most = slots,
                       .iou_threshold = static_cast<float>(limits.iou_threshold),
                       .score_threshold = static_cast<float>(limits.score_threshold),
                       .sigma = static_cast<float>(limits.sigma),
                       .queue = queue.data(),
                       .selected = selected.data(),
                       .kept_scores = kept.data()};
  const auto covered = [&s](const Box& box, int64_t begin, int64_t end) { return s.covered(box, begin, end); };
  SMELT_ASSIGN(const int64_t found, select_soft(ctx, s, covered, [](const Box&) {}));
  return write_selected(ctx, slots, found, s.selected, s.kept_scores);
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

Result<NmsLimits> nms_limits(const KernelContext& ctx) {
  const bool tflite = ctx.attrs<NmsAttrs>().form != NmsAttrs::Form::kOnnx;
  NmsLimits l;
  SMELT_ASSIGN(l.most, number_of(ctx, 2, 0));
  SMELT_ASSIGN(l.iou_threshold, number_of(ctx, 3, 0));
  SMELT_ASSIGN(l.score_threshold, number_of(ctx, 4, tflite ? 0 : l.score_threshold));
  if (!tflite) return l;
  SMELT_ASSIGN(l.sigma, number_of(ctx, 5, 0));
  if (!(l.most >= 0 && l.most < kMostSlots)) return InvalidInput("a maximum of ", l.most, " boxes");
  if (!(l.iou_threshold >= 0)) return InvalidInput("an overlap threshold of ", l.iou_threshold);
  if (!(l.sigma >= 0)) return InvalidInput("a sigma of ", l.sigma);
  return l;
}

int64_t most_selected(const Shape& scores, std::optional<int64_t> most) {
  const int64_t boxes = scores[2];
  return scores[0] * scores[1] * std::clamp<int64_t>(most.value_or(boxes), 0, boxes);
}

std::optional<ValueType> largest_selection(const NodeSpec& node) {
  constexpr int64_t kSmall = int64_t{1} << 20;  // bytes
  if (node.attrs<NmsAttrs>().form != NmsAttrs::Form::kOnnx) return std::nullopt;
  const Shape &boxes = node.inputs[0].shape, &scores = node.inputs[1].shape;
  const Tensor* const limit = node.constant(2);
  if (!node.inputs[0].is_static() || !node.inputs[1].is_static() || (node.has(2) && (!limit || limit->elements() < 1)))
    return std::nullopt;
  const double most = limit ? std::clamp(number_in(*limit), 0.0, static_cast<double>(scores[2])) : 0;
  const int64_t selected = most_selected(scores, most > 0 ? static_cast<int64_t>(most) : 0);
  const auto operands = static_cast<int64_t>(sizeof(float)) * (boxes.elements() + scores.elements());
  if (selected * 3 > std::max(kSmall, operands) / static_cast<int64_t>(sizeof(int64_t))) return std::nullopt;
  return ValueType::tensor(DType::kI64, Shape{selected, 3});
}

Status write_selected(KernelContext& ctx, int64_t slots, int64_t found, const int64_t* selected, const float* scores) {
  const bool soft = ctx.attrs<NmsAttrs>().form == NmsAttrs::Form::kTflite5;
  if (ctx.wants(0)) {
    SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kI32, Shape{slots}));
    for (int64_t i = 0; i < slots; ++i) y->data<int32_t>()[i] = i < found ? static_cast<int32_t>(selected[i]) : 0;
  }
  if (soft && ctx.wants(1)) {
    SMELT_ASSIGN(Tensor * y, ctx.allocate(1, DType::kF32, Shape{slots}));
    for (int64_t i = 0; i < slots; ++i) y->data<float>()[i] = i < found ? scores[i] : 0;
  }
  const int last = soft ? 2 : 1;
  if (!ctx.wants(last)) return Ok();
  SMELT_ASSIGN(Tensor * y, ctx.allocate(last, DType::kI32, Shape{}));
  y->data<int32_t>()[0] = static_cast<int32_t>(found);
  return Ok();
}

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
  return run_tflite(ctx);
}

}  // namespace smelt
