// Non-maximum suppression. Boxes lie in memory coordinate by coordinate, so that one box is compared with a vector of
// others at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/core/targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/detection/nms_f32.cc"
#include <hwy/foreach_target.h>
#include "backends/cpu/core/highway.h"

#include "backends/cpu/core/kernel.h"
#include "backends/cpu/core/slots.h"
#include "ops/detection/arrays.h"
#include "ops/detection/detection.h"
#include "ops/detection/nms.h"

#ifndef SMELT_CPU_NMS_F32
#define SMELT_CPU_NMS_F32
namespace smelt {

/// Boxes coordinate by coordinate, corners in order.
struct BoxArrays {
  float *y_min, *x_min, *y_max, *x_max;
  float* area;  ///< NaN where a box has none, so that all comparisons of its overlaps are false

  static constexpr int64_t kArrays = 5;
  /// `at`: kArrays arrays of `stride` floats.
  static BoxArrays in(float* at, int64_t stride) {
    return {at, at + stride, at + 2 * stride, at + 3 * stride, at + 4 * stride};
  }
  void set(int64_t i, const Box& b) const {
    y_min[i] = b.y_min, x_min[i] = b.x_min, y_max[i] = b.y_max, x_max[i] = b.x_max;
    const float a = smelt::area(b);
    area[i] = a > 0 ? a : std::numeric_limits<float>::quiet_NaN();
  }
};

/// Boxes that may be selected, in the order of their indices. Arrays have a vector to spare.
struct NmsList {
  float* scores;
  int32_t* index;
};

/// The selection of one class.
struct NmsClass {
  BoxArrays boxes;  ///< all of them
  int64_t count;
  const float* scores;  ///< of all boxes
  int64_t most;
  float iou_threshold, score_threshold;
  // Workspace.
  NmsList rest;    ///< boxes that have not been looked at
  NmsList chunk;   ///< the best of them
  BoxArrays near;  ///< those of the chunk
};

/// A score that one of more than kNmsChunk boxes has, and that about half as many as the chunk has reach.
float high_score(const float* scores, int64_t count);

/// Boxes that are looked at together: each selected one is compared with all of them.
constexpr int64_t kNmsChunk = 256;

/// Writes the indices of the selected boxes, returns how many they are.
using NmsSelect = int64_t (*)(const NmsClass& c, int32_t* selected);
/// True if a box overlaps one of `boxes` [begin, end) by `threshold` > 0 or more.
using NmsCovered = bool (*)(const BoxArrays& boxes, int64_t begin, int64_t end, const Box& box, float threshold);

}  // namespace smelt
#endif

HWY_BEFORE_NAMESPACE();
namespace smelt::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;

constexpr float kDead = -std::numeric_limits<float>::infinity();  ///< the score of what is not selected any more

/// One box, in every lane.
struct OneBox {
  V y_min, x_min, y_max, x_max, area;
  /// As overlap(), with NaN instead of 0 where a box has no area.
  HWY_INLINE V overlaps(const BoxArrays& b, int64_t i) const {
    const D d;
    const V zero = hn::Zero(d);
    const V top = hn::Max(y_min, hn::LoadU(d, b.y_min + i)), bottom = hn::Min(y_max, hn::LoadU(d, b.y_max + i));
    const V left = hn::Max(x_min, hn::LoadU(d, b.x_min + i)), right = hn::Min(x_max, hn::LoadU(d, b.x_max + i));
    const V both = hn::Mul(hn::Max(hn::Sub(bottom, top), zero), hn::Max(hn::Sub(right, left), zero));
    return hn::Div(both, hn::Sub(hn::Add(area, hn::LoadU(d, b.area + i)), both));
  }
};

HWY_INLINE OneBox box_of(const BoxArrays& b, int64_t i) {
  const D d;
  return {hn::Set(d, b.y_min[i]), hn::Set(d, b.x_min[i]), hn::Set(d, b.y_max[i]), hn::Set(d, b.x_max[i]),
          hn::Set(d, b.area[i])};
}

/// Appends lanes to a list of `count` boxes.
template <class M>
HWY_INLINE void append(const NmsList& to, int64_t& count, V scores, hn::Vec<DI> index, M which) {
  const D d;
  const DI di;
  hn::StoreU(hn::Compress(scores, which), d, to.scores + count);
  hn::StoreU(hn::Compress(index, hn::RebindMask(di, which)), di, to.index + count);
  count += static_cast<int64_t>(hn::CountTrue(d, which));
}

/// The boxes with scores above the threshold become the rest.
int64_t take_candidates(const NmsClass& c) {
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V least = hn::Set(d, c.score_threshold);
  int64_t count = 0, i = 0;
  const auto take = [&](const float* from) {
    const V scores = hn::LoadU(d, from);
    const auto above = hn::Gt(scores, least);
    if (!hn::AllFalse(d, above)) append(c.rest, count, scores, hn::Iota(di, static_cast<int32_t>(i)), above);
  };
  for (; i + lanes <= c.count; i += lanes) take(c.scores + i);
  HWY_ALIGN float last[hn::MaxLanes(d)];
  std::fill(last, last + hn::MaxLanes(d), kDead);
  std::copy(c.scores + i, c.scores + c.count, last);
  take(last);
  return count;
}

/// The boxes of the rest with scores of `least` or more become the chunk, whose size it returns.
int64_t take_chunk(const NmsClass& c, int64_t& rest, float least) {
  const D d;
  const DI di;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V from = hn::Set(d, least);
  int64_t taken = 0, left = 0;
  for (int64_t i = 0; i < rest; i += lanes) {
    const V scores = hn::LoadU(d, c.rest.scores + i);
    const auto index = hn::LoadU(di, c.rest.index + i);
    const auto valid = hn::FirstN(d, static_cast<size_t>(rest - i));
    const auto best = hn::Ge(scores, from);
    append(c.chunk, taken, scores, index, hn::And(best, valid));
    append(c.rest, left, scores, index, hn::AndNot(best, valid));
  }
  rest = left;
  hn::StoreU(hn::Set(d, kDead), d, c.chunk.scores + taken);
  hn::StoreU(hn::Zero(di), di, c.chunk.index + taken);
  const BoxArrays &all = c.boxes, &near = c.near;
  for (int64_t i = 0; i < taken; i += lanes) {
    const auto index = hn::LoadU(di, c.chunk.index + i);
    hn::StoreU(hn::GatherIndex(d, all.y_min, index), d, near.y_min + i);
    hn::StoreU(hn::GatherIndex(d, all.x_min, index), d, near.x_min + i);
    hn::StoreU(hn::GatherIndex(d, all.y_max, index), d, near.y_max + i);
    hn::StoreU(hn::GatherIndex(d, all.x_max, index), d, near.x_max + i);
    hn::StoreU(hn::GatherIndex(d, all.area, index), d, near.area + i);
  }
  return taken;
}

/// Boxes of the chunk that overlap `box` too much are dead. Returns the best score of the others.
HWY_INLINE V suppress(const NmsClass& c, int64_t taken, const OneBox& box) {
  const D d;
  const V threshold = hn::Set(d, c.iou_threshold);
  V best = hn::Set(d, kDead);
  for (int64_t i = 0; i < taken; i += static_cast<int64_t>(hn::Lanes(d))) {
    const V scores = hn::LoadU(d, c.chunk.scores + i);
    const V left = hn::IfThenElse(hn::Gt(box.overlaps(c.near, i), threshold), hn::Set(d, kDead), scores);
    hn::StoreU(left, d, c.chunk.scores + i);
    best = hn::Max(best, left);
  }
  return best;
}

int64_t nms_select(const NmsClass& c, int32_t* selected) {
  const D d;
  int64_t rest = take_candidates(c), found = 0;
  while (rest > 0 && found < c.most) {
    const int64_t taken = take_chunk(c, rest, rest <= kNmsChunk ? kDead : high_score(c.rest.scores, rest));
    V best = hn::Set(d, kDead);
    for (int64_t i = 0; i < taken; i += static_cast<int64_t>(hn::Lanes(d)))
      best = hn::Max(best, hn::LoadU(d, c.chunk.scores + i));
    for (int64_t k = 0; k < found; ++k) best = suppress(c, taken, box_of(c.boxes, selected[k]));
    while (found < c.most) {
      const float score = hn::GetLane(hn::MaxOfLanes(d, best));
      if (score == kDead) break;
      const V wanted = hn::Set(d, score);
      int64_t at = 0;
      intptr_t lane = -1;  // of equal scores the first
      for (; lane < 0; at += static_cast<int64_t>(hn::Lanes(d)))
        lane = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, c.chunk.scores + at), wanted));
      at += lane - static_cast<int64_t>(hn::Lanes(d));
      selected[found++] = c.chunk.index[at];
      c.chunk.scores[at] = kDead;
      best = suppress(c, taken, box_of(c.near, at));
    }
  }
  return found;
}

bool nms_covered(const BoxArrays& boxes, int64_t begin, int64_t end, const Box& box, float threshold) {
  const D d;
  const float own = area(box);
  if (!(own > 0)) return false;
  const OneBox one{hn::Set(d, box.y_min), hn::Set(d, box.x_min), hn::Set(d, box.y_max), hn::Set(d, box.x_max),
                   hn::Set(d, own)};
  for (int64_t i = begin; i < end; i += static_cast<int64_t>(hn::Lanes(d))) {
    const auto over = hn::Ge(one.overlaps(boxes, i), hn::Set(d, threshold));
    if (!hn::AllFalse(d, hn::And(over, hn::FirstN(d, static_cast<size_t>(end - i))))) return true;
  }
  return false;
}

}  // namespace smelt::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace smelt {

float high_score(const float* scores, int64_t count) {
  constexpr int64_t kSamples = 64;
  float some[kSamples];
  for (int64_t i = 0; i < kSamples; ++i) some[i] = scores[i * count / kSamples];
  const auto wanted = some + std::min<int64_t>(kSamples * kNmsChunk / 2 / count, kSamples / 2);
  std::nth_element(some, wanted, some + kSamples, std::greater<>());
  return *wanted;
}

namespace {

/// The largest float that is not above x, so that comparisons of floats with either agree.
float at_most(double x) {
  const auto f = static_cast<float>(x);
  return static_cast<double>(f) > x ? std::nextafter(f, -std::numeric_limits<float>::infinity()) : f;
}

/// ONNX's form. Threads share the classes of all images.
class NmsF32 final : public Kernel {
 public:
  explicit NmsF32(const KernelSpec& spec)
      : select_(SMELT_FOR_LEVEL(spec.isa, nms_select)),
        images_(spec.inputs[1].shape[0]),
        classes_(spec.inputs[1].shape[1]),
        boxes_(spec.inputs[1].shape[2]),
        stride_(padded_floats(boxes_)),
        threads_(std::clamp<int64_t>(spec.threads, 1, images_ * classes_)),
        center_(spec.attrs<NmsAttrs>().center),
        slots_(spec.outputs[0].shape[0] / (images_ * classes_)) {}
  size_t scratch_bytes() const override {
    return static_cast<size_t>(images_ * BoxArrays::kArrays * stride_ + threads_ * kSlotArrays * stride_ + counts() +
                               images_ * classes_ * slots_) *
           sizeof(float);
  }
  Status run(KernelContext& ctx) const override {
    SMELT_ASSIGN(const NmsLimits limits, nms_limits(ctx));
    auto* const boxes = static_cast<float*>(ctx.scratch(scratch_bytes()));
    if (!boxes) return LimitReached("no memory to select among ", boxes_, " boxes");
    float* const slots = boxes + images_ * BoxArrays::kArrays * stride_;
    auto* const counts = reinterpret_cast<int32_t*>(slots + threads_ * kSlotArrays * stride_);
    int32_t* const selected = counts + this->counts();
    order_boxes(ctx, boxes);
    // Below a negative threshold there is no overlap, so that a class has one box.
    const int64_t most = limits.iou_threshold < 0 ? std::min<int64_t>(slots_, 1) : slots_;
    in_slots(ctx.threads(), threads_, images_ * classes_, [&](int64_t unit, int64_t slot) {
      float* const own = slots + slot * kSlotArrays * stride_;
      const NmsClass c{.boxes = arrays_of(boxes, unit / classes_),
                       .count = boxes_,
                       .scores = ctx.input(1).data<float>() + unit * boxes_,
                       .most = most,
                       .iou_threshold = at_most(limits.iou_threshold),
                       .score_threshold = at_most(limits.score_threshold),
                       .rest = list_at(own),
                       .chunk = list_at(own + 2 * stride_),
                       .near = BoxArrays::in(own + 4 * stride_, stride_)};
      counts[unit] = static_cast<int32_t>(select_(c, selected + unit * slots_));
    });
    return write(ctx, counts, selected);
  }

 private:
  static constexpr int64_t kSlotArrays = 4 + BoxArrays::kArrays;
  int64_t counts() const { return padded_floats(images_ * classes_); }
  BoxArrays arrays_of(float* boxes, int64_t image) const {
    return BoxArrays::in(boxes + image * BoxArrays::kArrays * stride_, stride_);
  }
  NmsList list_at(float* at) const { return {at, reinterpret_cast<int32_t*>(at + stride_)}; }

  void order_boxes(KernelContext& ctx, float* to) const {
    const float* from = ctx.input(0).data<float>();
    ctx.threads().parallel_for(images_ * boxes_, 1024, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) arrays_of(to, i / boxes_).set(i % boxes_, box_at(from + i * 4, center_));
    });
  }
  /// Rows of image, class and box.
  Status write(KernelContext& ctx, const int32_t* counts, const int32_t* selected) const {
    int64_t all = 0;
    for (int64_t unit = 0; unit < images_ * classes_; ++unit) all += counts[unit];
    SMELT_ASSIGN(Tensor * y, ctx.allocate(0, DType::kI64, Shape{all, 3}));
    auto* to = y->data<int64_t>();
    for (int64_t unit = 0; unit < images_ * classes_; ++unit)
      for (int64_t k = 0; k < counts[unit]; ++k, to += 3)
        to[0] = unit / classes_, to[1] = unit % classes_, to[2] = selected[unit * slots_ + k];
    return Ok();
  }

  NmsSelect select_;
  int64_t images_, classes_, boxes_;
  int64_t stride_;   ///< floats of an array
  int64_t threads_;  ///< that share the classes
  bool center_;
  int64_t slots_;  ///< boxes that are selected of a class at most
};

/// TFLite's forms, which have one class.
class NmsTflite final : public Kernel {
 public:
  explicit NmsTflite(const KernelSpec& spec)
      : covered_(SMELT_FOR_LEVEL(spec.isa, nms_covered)),
        boxes_(spec.inputs[0].shape[0]),
        slots_(std::min(boxes_, spec.outputs[0].shape[0])) {}
  size_t scratch_bytes() const override {
    Arrays arrays;
    take(arrays);
    return arrays.bytes();
  }
  Status run(KernelContext& ctx) const override {
    SMELT_ASSIGN(const NmsLimits limits, nms_limits(ctx));
    auto* const scratch = static_cast<std::byte*>(ctx.scratch(scratch_bytes()));
    if (!scratch) return LimitReached("no memory to select among ", boxes_, " boxes");
    Arrays memory(scratch);
    const Workspace w = take(memory);
    const BoxArrays arrays = BoxArrays::in(w.chosen, padded_floats(slots_));
    for (int64_t i = 0; i < boxes_; ++i) w.boxes[i] = box_at(ctx.input(0).data<float>() + i * 4, false);
    const NmsSelection s{.boxes = w.boxes,
                         .scores = ctx.input(1).data<float>(),
                         .count = boxes_,
                         .most = slots_,
                         .iou_threshold = static_cast<float>(limits.iou_threshold),
                         .score_threshold = static_cast<float>(limits.score_threshold),
                         .sigma = static_cast<float>(limits.sigma),
                         .queue = w.queue,
                         .selected = w.selected,
                         .kept_scores = w.kept_scores};
    int64_t count = 0;
    const auto covered = [&](const Box& box, int64_t begin, int64_t end) {
      return s.iou_threshold > 0 ? covered_(arrays, begin, end, box, s.iou_threshold) : s.covered(box, begin, end);
    };
    SMELT_ASSIGN(const int64_t found, select_soft(ctx, s, covered, [&](const Box& box) { arrays.set(count++, box); }));
    return write_selected(ctx, static_cast<int64_t>(limits.most), found, w.selected, w.kept_scores);
  }

 private:
  struct Workspace {
    NmsCandidate* queue;
    Box* boxes;
    int64_t* selected;
    float *kept_scores, *chosen;  ///< chosen: of BoxArrays
  };
  Workspace take(Arrays& from) const {
    return {from.take<NmsCandidate>(boxes_), from.take<Box>(boxes_), from.take<int64_t>(slots_),
            from.take<float>(slots_), from.take<float>(BoxArrays::kArrays * padded_floats(slots_))};
  }

  NmsCovered covered_;
  int64_t boxes_, slots_;
};

}  // namespace

[[gnu::cold]] std::unique_ptr<Kernel> make_nms_f32(const KernelSpec& spec) {
  constexpr int64_t kMostPairs = int64_t{1} << 26;  // beyond, the reference kernel's order in space is faster
  const Shape &boxes = spec.inputs[0].shape, &y = spec.outputs[0].shape;
  if (boxes.elements() == 0 || spec.inputs[1].shape.elements() == 0 || !y.is_static() || y.elements() == 0)
    return spec.refuse("nothing to select, or nobody knows how much");
  if (spec.attrs<NmsAttrs>().form != NmsAttrs::Form::kOnnx) return std::make_unique<NmsTflite>(spec);
  const Shape& scores = spec.inputs[1].shape;
  if (scores[2] > std::numeric_limits<int32_t>::max() || y[0] / (scores[0] * scores[1]) * scores[2] > kMostPairs)
    return spec.refuse("many boxes of a class");
  return std::make_unique<NmsF32>(spec);
}

}  // namespace smelt
#endif
