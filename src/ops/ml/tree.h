#pragma once

#include <vector>

#include "ops/core/op.h"
#include "ops/ml/ml.h"

namespace smelt {

/// What the trees say of one row: an entry for each target.
struct TreeVotes {
  std::vector<double> score;  ///< aggregated
  std::vector<char> has;      ///< 1 where there are votes
};

/// Aggregates the votes of a leaf into the scores of one row. score, has: as in TreeVotes.
void add_leaf_votes(const TreeEnsembleAttrs& a, int32_t leaf, double* score, char* has);

/// Writes label and scores of row n from its votes, which it changes. Fails for a class that has no label.
Status finish_tree_row(KernelContext& ctx, const TreeEnsembleAttrs& a, int64_t n, TreeVotes& v);

}  // namespace smelt
