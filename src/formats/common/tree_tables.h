#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/ml/ml.h"
#include "ops/ml/scores.h"

namespace smelt::formats {

/// Nodes on the longest way from a root to a leaf; nullopt if a tree loops or is deeper than 64 nodes.
std::optional<size_t> tree_depth(const TreeEnsembleAttrs& a);

/// The float32 that float32 features compare with as with the split of a node itself; NaN if none equals it.
float float_split(const TreeEnsembleAttrs& a, size_t node);

/// An ensemble as tables for a walk by look-ups: entry i is node i, entry nodes + j is leaf j, whose successor is
/// itself.
struct TreeWalkTables {
  explicit TreeWalkTables(const TreeEnsembleAttrs& a);

  std::vector<int32_t> roots, yes, no, feature;
  std::vector<float> split;
  std::vector<bool> missing;                       ///< NaN goes to `yes`; empty: no node says so
  std::vector<TreeEnsembleAttrs::Mode> modes;      ///< all that nodes have
  std::vector<std::vector<bool>> nodes_of_a_mode;  ///< as `modes`; empty if there is one
};

/// The votes of an ensemble's leaves, [leaves, targets].
struct TreeVotes {
  explicit TreeVotes(const TreeEnsembleAttrs& a);

  std::vector<float> weights, voted;  ///< `voted`: 1 where a leaf votes, else 0
  std::vector<bool> always, ever;     ///< by target: each leaf votes, any leaf votes
  bool all = true;                    ///< each leaf votes for each target
};

/// What a classifier of two targets makes of the sums of its votes. Columns are [n, 1], in the writer's numbers.
struct TwoClasses {
  int positive = -1;  ///< column: the label is the second one where it is above `bound`
  double bound = 0;
  int first = -1, other = -1;  ///< columns of the scores; other < 0: `second` says how it follows from the first
  ml::SecondClass second = ml::SecondClass::kNone;
};

/// As the reference kernel finishes two classes; nullopt where some leaves alone vote for a target. `columns` writes
/// columns: column(k) of the sums, plus(x, number), times(x, number), negated(x).
template <class Columns>
std::optional<TwoClasses> two_classes(const TreeEnsembleAttrs& a, const TreeVotes& v, Columns columns) {
  bool has[2];
  for (const size_t k : {0, 1}) {
    if (v.always[k] != v.ever[k]) return std::nullopt;
    has[k] = v.ever[k];
  }
  TwoClasses out{.first = columns.column(0), .other = columns.column(1)};
  const bool both = has[1];
  bool single = false;
  if (a.base.size() == 2 && both) {
    out.other = columns.plus(out.first, a.base[1]);
    out.first = columns.negated(out.other);
  } else if (a.base.size() == 2) {
    out.other = columns.plus(out.other, a.base[1]);
    out.first = columns.plus(out.first, a.base[0]);
    has[0] = true;
  } else {
    if (a.base.size() == 1) out.first = columns.plus(out.first, a.base[0]);
    single = !both;
  }
  const int no_votes = has[0] ? -1 : columns.times(out.first, 0);
  out.positive = both ? out.other : has[0] ? out.first : no_votes;
  if (single) out.second = ml::SecondClass::kNegative;
  if (a.one_vote_class) {
    out.bound = a.positive_weights ? 0.5 : 0;
    out.second = a.positive_weights ? ml::SecondClass::kComplement : ml::SecondClass::kNegative;
  }
  if (single) {
    out.other = -1;
    return out;
  }
  if (!has[0]) out.first = no_votes;
  if (!both) out.other = columns.times(out.other, 0);
  return out;
}

}  // namespace smelt::formats
