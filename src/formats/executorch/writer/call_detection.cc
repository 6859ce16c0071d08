// Non-maximum suppression as a loop of ATen calls that takes the best box of each group in turn.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "formats/executorch/writer/call_writer.h"
#include "ops/detection/detection.h"

namespace smelt::executorch {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

/// Boxes that all groups together may select.
constexpr int64_t kMostSlots = int64_t{1} << 22;

/// Which boxes a selection looks at, how many it takes, and which others a selected one suppresses.
struct Rule {
  int64_t most = 0;          ///< boxes selected of each group
  int score_threshold = -1;  ///< scalars; -1: none
  int iou_threshold = -1;
  int sigma = -1;               ///< of soft suppression: scores fall with the overlap
  bool equal_counts = false;    ///< a score equal to its threshold is taken
  bool equal_overlaps = false;  ///< an overlap equal to its threshold suppresses
};

/// The selected boxes of each group in the order of their scores, [groups, most].
struct Selection {
  int index = -1;  ///< int64
  int score = -1;  ///< -infinity where no further box was found
};

/// Greedy selection for groups of boxes; all values are [groups, boxes].
class Suppression {
 public:
  /// `corners`: y and x of the first corner, then of the other one, in order; `scores`: float32.
  Suppression(CallWriter& w, const std::vector<int>& corners, int scores, const Rule& rule)
      : w_(w), p_(w.plan()), rule_(rule), scores_(scores), groups_(w.shape(scores)[0]), boxes_(w.shape(scores)[1]) {
    for (size_t k = 0; k < 2; ++k) {
      low_.push_back(w.binary("minimum", corners[k], corners[k + 2]));
      high_.push_back(w.binary("maximum", corners[k], corners[k + 2]));
    }
    area_ = w.mul({w.sub(high_[0], low_[0]), w.sub(high_[1], low_[1])});
    scores_ = above_threshold(scores_);
  }

  std::optional<Selection> run() {
    const Shape slots{groups_, rule_.most};
    Tensor none(DType::kF32, slots);
    std::fill_n(none.data<float>(), none.elements(), static_cast<float>(kNever));
    std::vector<int64_t> steps(static_cast<size_t>(std::max(rule_.most, boxes_)));
    std::iota(steps.begin(), steps.end(), 0);
    slots_ = int64_constant(w_, {steps.begin(), steps.begin() + rule_.most}, Shape{1, rule_.most});
    numbers_ = int64_constant(w_, {steps.begin(), steps.begin() + boxes_}, Shape{1, boxes_});
    const std::vector<int> first{p_.number(DType::kI64, 0), scores_, p_.constant(Tensor(DType::kI64, slots)),
                                 p_.constant(none)};
    const auto out = p_.loop(any(scores_), first, [&](const std::vector<int>& v) { return round(v); });
    if (!out) return std::nullopt;
    return Selection{(*out)[2], (*out)[3]};
  }

 private:
  int number(double v) { return w_.number_like(scores_, v); }
  /// True if a group has a box left, a bool of one element.
  int any(int scores) {
    const int left = w_.compare("gt", scores, number(kNever)), keep = p_.boolean(false);
    return p_.call("aten::any", "dims_out", {left, p_.integers({0, 1}), keep}, DType::kBool, Shape{});
  }
  int above_threshold(int scores) {
    const int threshold = rule_.score_threshold < 0 ? number(kNever) : rule_.score_threshold;
    return w_.select({w_.compare(rule_.equal_counts ? "ge" : "gt", scores, threshold), scores, number(kNever)});
  }
  /// Entry `at` [groups, 1] of each group.
  int chosen(int x, int at) {
    const int dim = p_.integer(1), sparse = p_.boolean(false);
    return p_.call("aten::gather", "out", {x, dim, at, sparse}, w_.dtype(x), Shape{groups_, 1});
  }

  /// Intersection over union of all boxes with box `best` of their group; 0 where one of the two has no area.
  int overlaps(int best) {
    int both = -1;
    for (size_t k = 0; k < 2; ++k) {
      const int end = w_.binary("minimum", high_[k], chosen(high_[k], best));
      const int begin = w_.binary("maximum", low_[k], chosen(low_[k], best));
      const int extent = w_.binary("maximum", {w_.sub(end, begin), number(0)});
      both = k == 0 ? extent : w_.mul(both, extent);
    }
    const int own = chosen(area_, best);
    const int some = w_.binary("logical_and", {w_.compare("gt", area_, number(0)), w_.compare("gt", own, number(0))});
    const int all = w_.sub(w_.add(area_, own), both);
    return w_.select({some, w_.div(both, w_.select(some, all, number(1))), number(0)});
  }

  /// Carried: the number of the round, scores of the boxes left, and what was selected.
  std::optional<std::vector<int>> round(const std::vector<int>& carried) {
    const int at = carried[0], scores = carried[1], dim = p_.integer(1), keep = p_.boolean(true);
    const int best = p_.call("aten::argmax", "out", {scores, dim, keep}, DType::kI64, Shape{groups_, 1});
    const int score = chosen(scores, best), here = w_.compare("eq", slots_, at);
    const int overlap = overlaps(best);
    int left = scores;
    if (rule_.sigma >= 0) {
      const int fall = w_.div(w_.mul({w_.mul(overlap, overlap), number(-0.5)}), rule_.sigma);
      left = above_threshold(w_.mul(left, w_.unary("exp", fall)));
    }
    int gone = w_.compare(rule_.equal_overlaps ? "ge" : "gt", overlap, rule_.iou_threshold);
    // By TFLite's rule a selected box goes as it overlaps with itself.
    if (!rule_.equal_overlaps) gone = w_.binary("logical_or", gone, w_.compare("eq", numbers_, best));
    left = w_.select(gone, number(kNever), left);
    const int next = w_.add(at, p_.number(DType::kI64, 1));
    const int more = w_.compare("lt", next, p_.number(DType::kI64, static_cast<double>(rule_.most)));
    return std::vector<int>{w_.binary("logical_and", any(left), more), next, left, w_.select(here, best, carried[2]),
                            w_.select(here, score, carried[3])};
  }

  CallWriter& w_;
  PlanWriter& p_;
  const Rule& rule_;
  int scores_;
  int64_t groups_, boxes_;
  std::vector<int> low_, high_;
  int area_ = -1, slots_ = -1, numbers_ = -1;
};

/// Boxes [batch, n, 4] as four values [batch * classes, n]: y and x of a corner, then of the other one.
std::vector<int> corners_of(CallWriter& w, int boxes, int64_t classes, bool center) {
  const Shape s = w.shape(boxes);
  const auto column = [&](int64_t k) {
    const int one = w.plan().reshape(sliced(w, boxes, 2, k, k + 1), Shape{s[0], 1, s[1]});
    return w.plan().reshape(expanded(w, one, Shape{s[0], classes, s[1]}), Shape{s[0] * classes, s[1]});
  };
  std::vector<int> out{column(0), column(1), column(2), column(3)};
  if (!center) return out;
  const auto half = [&](int x) { return w.mul(x, w.number_like(x, 0.5)); };
  const int y = out[1], x = out[0], tall = half(out[3]), wide = half(out[2]);
  return {w.sub(y, tall), w.sub(x, wide), w.add(y, tall), w.add(x, wide)};
}

/// Input i as a float32 scalar, -1 if it is absent; nullopt if it is no single number.
std::optional<int> scalar_of(CallWriter& w, int i) {
  if (!w.has(i)) return -1;
  const int x = w.cast(w.in(i), DType::kF32);
  return w.shape(x).elements() == 1 ? std::optional(w.plan().reshape(x, Shape{})) : std::nullopt;
}

/// `x` [n] with zeros up to `slots` entries, or without those behind them.
int fitted(CallWriter& w, int x, int64_t slots) {
  const int64_t n = w.shape(x)[0];
  return n > slots ? sliced(w, x, 0, 0, slots) : bordered(w, x, 0, 0, slots - n, 0);
}

/// TFLite's forms: indices, with their scores in version 5, filled up with zeros, and their number.
bool tflite_suppression(CallWriter& w, Rule rule, int64_t slots, bool soft) {
  PlanWriter& p = w.plan();
  const Shape boxes = w.in_type(0).shape;
  rule.equal_overlaps = true;
  const int real = p.reshape(w.cast(w.real(0), DType::kF32), Shape{1, boxes[0], 4});
  const int scores = p.reshape(w.cast(w.real(1), DType::kF32), Shape{1, boxes[0]});
  const auto found = Suppression(w, corners_of(w, real, 1, false), scores, rule).run();
  if (!found) return false;
  const auto flat = [&](int x) { return p.reshape(x, Shape{rule.most}); };
  const int score = flat(found->score), valid = w.compare("gt", score, w.number_like(score, kNever));
  const int count = w.reduce("sum", w.cast(valid, DType::kI64), {0}, false);
  if (w.wants(0) && !w.out(0, fitted(w, w.cast(flat(found->index), DType::kI32), slots))) return false;
  if (soft && w.wants(1)) {
    const int shown = w.select(valid, score, w.number_like(score, 0));
    if (!w.out(1, fitted(w, shown, slots))) return false;
  }
  const int last = soft ? 2 : 1;
  return !w.wants(last) || w.out(last, w.cast(count, DType::kI32));
}

/// ONNX's form: rows (batch, class, box) of the boxes selected, as many as a run finds.
bool onnx_suppression(CallWriter& w, const Rule& rule, bool center) {
  PlanWriter& p = w.plan();
  const Shape boxes = w.in_type(0).shape, scores = w.in_type(1).shape;
  const int64_t groups = scores[0] * scores[1], slots = groups * rule.most, rows = w.out_type(0).shape[0];
  if (!p.has_bounds() || rows < slots || slots > kMostSlots) return false;
  const int real = p.reshape(w.cast(w.real(1), DType::kF32), Shape{groups, boxes[1]});
  const auto corners = corners_of(w, w.cast(w.real(0), DType::kF32), scores[1], center);
  const auto found = Suppression(w, corners, real, rule).run();
  if (!found) return false;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < slots; ++i) {
    places.push_back(i / rule.most / scores[1]);
    places.push_back(i / rule.most % scores[1]);
  }
  const int all =
      concatenated(w, {int64_constant(w, places, Shape{slots, 2}), p.reshape(found->index, Shape{slots, 1})}, 1);
  int valid = p.reshape(w.compare("gt", found->score, w.number_like(found->score, kNever)), Shape{slots});
  if (!w.number(2)) {
    std::vector<int64_t> numbers;
    for (int64_t i = 0; i < slots; ++i) numbers.push_back(i % rule.most);
    const int most = p.reshape(w.cast(w.in(2), DType::kI64), Shape{});
    valid = w.binary("logical_and", valid, w.compare("lt", int64_constant(w, numbers, Shape{slots}), most));
  }
  const int at = p.call("aten::nonzero", "out", {valid}, DType::kI64, Shape{rows, 1});
  return w.out(0, look_up(w, all, p.reshape(at, Shape{rows})));
}

}  // namespace

bool call_non_max_suppression(CallWriter& w) {
  using Form = NmsAttrs::Form;
  const auto& a = w.attrs<NmsAttrs>();
  const auto most = w.number(2);
  const auto iou = scalar_of(w, 3), threshold = scalar_of(w, 4);
  const Shape& boxes = w.in_type(0).shape;
  if (!iou || !threshold) return false;
  if (a.form == Form::kOnnx) {
    const double limit = most ? *most : w.has(2) ? static_cast<double>(boxes[1]) : 0;
    const auto taken = static_cast<int64_t>(std::min(limit, static_cast<double>(boxes[1])));
    if (taken < 1 || taken > kMostSteps || boxes.elements() == 0) return false;
    const int none = w.plan().number(DType::kF32, 0);
    return onnx_suppression(w, {.most = taken, .score_threshold = *threshold, .iou_threshold = *iou < 0 ? none : *iou},
                            a.center);
  }
  if (!most || !(*most >= 1) || *iou < 0) return false;
  if (boxes[0] == 0 || *most > static_cast<double>(kMostSteps)) return false;
  const auto slots = static_cast<int64_t>(*most);
  Rule rule{.most = std::min(slots, boxes[0]), .score_threshold = *threshold, .iou_threshold = *iou};
  const bool soft = a.form == Form::kTflite5;
  if (soft) {
    const auto sigma = w.number(5);
    if (!sigma) return false;
    if (*sigma > 0) rule.sigma = w.plan().number(DType::kF32, *sigma);
  }
  return tflite_suppression(w, rule, slots, soft);
}

namespace {

/// TFLite_Detection_PostProcess.
class DetectionCalls {
 public:
  explicit DetectionCalls(CallWriter& w)
      : w_(w), a_(w.attrs<DetectionAttrs>()), p_(w.plan()), boxes_(w.in_type(0).shape[1]) {}

  bool run() {
    decode();
    const Shape given = w_.in_type(1).shape;
    const int real = p_.reshape(w_.cast(w_.real(1), DType::kF32), Shape{boxes_, given[2]});
    scores_ = sliced(w_, real, 1, given[2] - a_.classes, given[2]);
    rule_.score_threshold = p_.number(DType::kF32, a_.score_threshold);
    rule_.iou_threshold = p_.number(DType::kF32, a_.iou_threshold);
    rule_.equal_counts = true;
    return a_.regular_nms ? by_class() : by_box();
  }

 private:
  int number(double v) { return p_.number(DType::kF32, v); }

  /// Boxes from encodings around anchors: [1, boxes, 4] as corners.
  void decode() {
    const auto column = [&](int i, int64_t k, const Shape& s) {
      return sliced(w_, p_.reshape(w_.cast(w_.real(i), DType::kF32), s), 1, k, k + 1);
    };
    const Shape codes{boxes_, w_.in_type(0).shape[2]}, anchors = w_.in_type(2).shape;
    const auto code = [&](int64_t k, double scale) { return w_.div({column(0, k, codes), number(scale)}); };
    const auto anchor = [&](int64_t k) { return sliced(w_, column(2, k, anchors), 0, 0, boxes_); };
    std::vector<int> first, second;
    for (int64_t k = 0; k < 2; ++k) {
      const int size = anchor(2 + k);
      const int center = w_.add({w_.mul(code(k, k == 0 ? a_.y_scale : a_.x_scale), size), anchor(k)});
      const int grown = w_.unary("exp", code(2 + k, k == 0 ? a_.h_scale : a_.w_scale));
      const int half = w_.mul(w_.mul(grown, number(0.5)), size);
      first.push_back(w_.sub(center, half));
      second.push_back(w_.add(center, half));
    }
    corners_ = concatenated(w_, {first[0], first[1], second[0], second[1]}, 1);
  }

  std::optional<Selection> selected(int scores, int64_t most) {
    rule_.most = std::min(most, boxes_);
    const int64_t groups = w_.shape(scores)[0];
    return Suppression(w_, corners_of(w_, p_.reshape(corners_, Shape{1, boxes_, 4}), groups, false), scores, rule_)
        .run();
  }

  int top(int x, int64_t k, int64_t axis, int& places) {
    Shape s = w_.shape(x);
    s[static_cast<int>(axis)] = k;
    const int values = p_.add_tensor(DType::kF32, s);
    places = p_.add_tensor(DType::kI64, s);
    const int n = p_.integer(k), dim = p_.integer(axis), yes = p_.boolean(true);
    p_.call_to("aten::topk", "values", {x, n, dim, yes, yes}, {values, places});
    return values;
  }

  /// Boxes by their best class, each with its best classes.
  bool by_box() {
    int best_place = -1, labels = -1;
    const int best = p_.reshape(top(scores_, 1, 1, best_place), Shape{1, boxes_});
    const auto found = selected(best, a_.max_detections);
    if (!found) return false;
    const int64_t n = rule_.most, each = a_.max_classes_per_detection, classes = std::min(each, a_.classes);
    const int at = p_.reshape(found->index, Shape{n}), own = look_up(w_, scores_, at);
    const int values = top(own, classes, 1, labels);
    const int valid = w_.compare("gt", {p_.reshape(found->score, Shape{n, 1}), number(kNever)});
    const auto slots = [&](int x) { return p_.reshape(bordered(w_, x, 1, 0, each - classes, 0), Shape{n * each}); };
    const int boxes = p_.reshape(look_up(w_, corners_, at), Shape{n, 1, 4});
    const int spread = bordered(w_, expanded(w_, boxes, Shape{n, classes, 4}), 1, 0, each - classes, 0);
    const int live = slots(w_.select({valid, number(1), p_.constant(Tensor(DType::kF32, Shape{n, classes}))}));
    const int count = w_.reduce("sum", p_.reshape(w_.cast(valid, DType::kF32), Shape{n}), {0}, false);
    const int all = p_.reshape(spread, Shape{n * each, 4}), numbers = slots(w_.cast(labels, DType::kF32));
    return give(all, numbers, slots(values), live, count);
  }

  /// Each class on its own; the best detections of all classes stay.
  bool by_class() {
    const auto found = selected(p_.permute(scores_, {1, 0}), a_.detections_per_class);
    if (!found) return false;
    const int64_t all = a_.classes * rule_.most, n = std::min(a_.max_detections, all);
    int places = -1;
    const int values = top(p_.reshape(found->score, Shape{all}), n, 0, places);
    const int label = p_.call("aten::floor_divide", "out",
                              {places, p_.number(DType::kI64, static_cast<double>(rule_.most))}, DType::kI64, Shape{n});
    const int at = look_up(w_, p_.reshape(found->index, Shape{all}), places);
    const int live = w_.cast(w_.compare("gt", values, number(kNever)), DType::kF32);
    const int boxes = look_up(w_, corners_, at), numbers = w_.cast(label, DType::kF32);
    return give(boxes, numbers, values, live, w_.reduce("sum", live, {0}, false));
  }

  /// `live`: 1 for slots that hold a detection; the others become zeros.
  bool give(int boxes, int labels, int scores, int live, int count) {
    const int zero = number(0), real = w_.compare("gt", live, zero);
    const int rows = p_.reshape(real, Shape{w_.shape(real)[0], 1});
    const int results[] = {w_.select(rows, boxes, zero), w_.select(real, labels, zero), w_.select(real, scores, zero)};
    for (int i = 0; i < 3; ++i) {
      if (!w_.wants(i)) continue;
      const Shape& s = w_.out_type(i).shape;
      if (!w_.out(i, p_.reshape(fitted(w_, results[i], s[1]), s))) return false;
    }
    return !w_.wants(3) || w_.out(3, p_.reshape(count, Shape{1}));
  }

  CallWriter& w_;
  const DetectionAttrs& a_;
  PlanWriter& p_;
  int64_t boxes_;
  Rule rule_;
  int corners_ = -1, scores_ = -1;
};

}  // namespace

bool call_detection_postprocess(CallWriter& w) {
  const auto& a = w.attrs<DetectionAttrs>();
  for (int i = 0; i < 3; ++i)
    if (!w.in_type(i).is_static()) return false;
  if (w.in_type(0).shape.elements() == 0 || a.max_detections < 1 || a.max_detections > kMostSteps) return false;
  return DetectionCalls(w).run();
}

}  // namespace smelt::executorch
