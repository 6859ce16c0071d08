#pragma once

#include <cstdint>

#include "backends/cpu/core/isa.h"

namespace smelt {

/// A node of trees whose tests are all of one kind, or a leaf, whose `next` is itself. `next` is where rows go that
/// pass the test, the node behind it where the others go.
struct UniformNode {
  float split;  ///< a leaf's is NaN
  int32_t feature;
  int32_t next;
  int32_t leaf;
};

/// kRows rows that walk through a tree side by side: every node tests all of them.
struct TreeRows {
  static constexpr int64_t kRows = 16, kMostNodes = 64;
  int64_t most_nodes;  ///< at most kMostNodes; larger trees take longer so than row by row
  /// leaves[i]: where row i comes from node `root`, the first of `count` nodes that stand before their children.
  /// columns: feature f of row i is columns[f * kRows + i], none is NaN. [0]: rows pass that are at most the split;
  /// [1]: those below it.
  void (*leaves[2])(const UniformNode* nodes, int64_t root, int64_t count, const float* columns, int32_t* leaves);
};
const TreeRows& tree_rows(Isa isa);

}  // namespace smelt
