#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/ml/ml.h"

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

}  // namespace smelt::formats
