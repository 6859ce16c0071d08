#pragma once

#include <algorithm>
#include <memory_resource>
#include <vector>

#include "ops/core/op.h"
#include "ops/ml/ml.h"

namespace smelt {

/// What the trees say of one row: an entry for each target. The object may be used again for the next row.
struct TreeVotes {
  explicit TreeVotes(const TreeEnsembleAttrs& a, std::pmr::memory_resource* memory = std::pmr::get_default_resource())
      : score(memory), has(memory) {
    score.reserve(static_cast<size_t>(std::max<int64_t>(a.targets, 2)));  // a second class may join
    has.reserve(static_cast<size_t>(a.targets));
  }
  /// What an object takes from its memory, alignment included.
  static size_t bytes(const TreeEnsembleAttrs& a) {
    return static_cast<size_t>(std::max<int64_t>(a.targets, 2)) * (sizeof(double) + sizeof(char)) + sizeof(double);
  }

  std::pmr::vector<double> score;  ///< aggregated
  std::pmr::vector<char> has;      ///< 1 where there are votes
};

/// Aggregates the votes of a leaf into the scores of one row. score, has: as in TreeVotes.
void add_leaf_votes(const TreeEnsembleAttrs& a, int32_t leaf, double* score, char* has);

/// Writes label and scores of row n from its votes, which it changes. Fails for a class that has no label.
Status finish_tree_row(KernelContext& ctx, const TreeEnsembleAttrs& a, int64_t n, TreeVotes& v);

}  // namespace smelt
