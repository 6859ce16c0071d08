#pragma once

#include <cstddef>
#include <optional>

#include "ops/ml/ml.h"

namespace smelt::formats {

/// Nodes on the longest way from a root to a leaf; nullopt if a tree loops or is deeper than 64 nodes.
std::optional<size_t> tree_depth(const TreeEnsembleAttrs& a);

/// The float32 that float32 features compare with as with the split of a node itself; NaN if none equals it.
float float_split(const TreeEnsembleAttrs& a, size_t node);

}  // namespace smelt::formats
