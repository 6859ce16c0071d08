#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "ops/core/node_spec.h"
#include "ops/core/op.h"
#include "ops/detection/boxes.h"
#include "smelt/tensor.h"

namespace smelt {

/// The scalar operands of a NonMaxSuppression node.
struct NmsLimits {
  double most = 0;           ///< boxes that are selected of a class; TFLite: slots of the outputs
  double iou_threshold = 0;  ///< of boxes that suppress each other
  double score_threshold = -std::numeric_limits<double>::infinity();  ///< selected boxes have higher scores
  double sigma = 0;                                                   ///< of soft suppression; 0: hard
};
/// Fails where one of them is empty or, in TFLite's forms, out of its range.
Result<NmsLimits> nms_limits(const KernelContext& ctx);

/// Boxes that ONNX's form selects at most of scores [batches, classes, boxes]. `most`: its limit for a class; nullopt:
/// unknown.
int64_t most_selected(const Shape& scores, std::optional<int64_t> most);

/// The type of ONNX's output with the most boxes that the node may select. nullopt: its limit is not known, or allows
/// so many that memory for them would exceed that of the operands by far; or the node is of another form.
std::optional<ValueType> largest_selection(const NodeSpec& node);

/// A box that TFLite's selection may select.
struct NmsCandidate {
  int64_t index;
  float score;
  int64_t compared;  ///< selected boxes that it has been compared with already
};
inline bool worse(const NmsCandidate& a, const NmsCandidate& b) { return a.score < b.score; }

/// What TFLite's selection works on. The memory is the caller's: `selected` and `kept_scores` take as many elements as
/// boxes are selected at most.
struct NmsSelection {
  const Box* boxes;
  const float* scores;
  int64_t count;  ///< of boxes
  int64_t most;
  float iou_threshold, score_threshold, sigma;
  NmsCandidate* queue;  ///< [count]
  int64_t* selected;
  float* kept_scores;

  /// True if a box overlaps one of the selected boxes [begin, end) by iou_threshold or more.
  bool covered(const Box& box, int64_t begin, int64_t end) const {
    return std::ranges::any_of(selected + begin, selected + end,
                               [&](int64_t j) { return overlap(box, boxes[j]) >= iou_threshold; });
  }
};

/// TFLite's selection: hard suppression at iou_threshold; with sigma > 0 scores of overlapping boxes decay (soft NMS).
/// As in TFLite, a selected box stays a candidate until its overlap with itself suppresses it; a box without area is
/// selected repeatedly. Returns the number of selected boxes. covered(): as NmsSelection::covered().
/// added(box): the box was selected.
template <class Covered, class Added>
Result<int64_t> select_soft(KernelContext& ctx, const NmsSelection& s, const Covered& covered, const Added& added) {
  NmsCandidate* end = s.queue;  // a heap, the best score on top
  for (int64_t i = 0; i < s.count; ++i) {
    if (!(s.scores[i] > s.score_threshold)) continue;
    *end++ = {i, s.scores[i], 0};
    std::push_heap(s.queue, end, worse);
  }
  const int64_t wanted = std::min<int64_t>(end - s.queue, s.most);
  const float decay = s.sigma > 0 ? -0.5f / s.sigma : 0;
  int64_t found = 0;
  while (found < wanted && end != s.queue) {
    SMELT_TRY(ctx.tick());
    std::pop_heap(s.queue, end, worse);
    NmsCandidate next = *--end;
    const float original = next.score;
    bool suppressed = s.sigma > 0 ? false : covered(s.boxes[next.index], next.compared, found);
    for (int64_t j = found - 1; s.sigma > 0 && j >= next.compared; --j) {
      const float iou = overlap(s.boxes[next.index], s.boxes[s.selected[j]]);
      suppressed = iou >= s.iou_threshold;
      if (suppressed) break;
      next.score = next.score * std::exp(decay * iou * iou);
      if (next.score <= s.score_threshold) break;
    }
    next.compared = found;
    if (suppressed) continue;
    if (next.score == original) {
      s.selected[found] = next.index;
      s.kept_scores[found++] = next.score;
      added(s.boxes[next.index]);
    }
    if (next.score > s.score_threshold) {
      *end++ = next;
      std::push_heap(s.queue, end, worse);
    }
  }
  return found;
}

/// Writes the outputs of a node of TFLite's forms: `found` selected boxes, and zeros behind them.
Status write_selected(KernelContext& ctx, int64_t slots, int64_t found, const int64_t* selected, const float* scores);

}  // namespace smelt
