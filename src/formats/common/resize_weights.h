#pragma once

#include <utility>
#include <vector>

#include "graph/graph.h"

namespace smelt::formats {

/// What Resize does along one dimension as a matrix [out, in] of float32: y = matrix @ x.
struct ResizeWeights {
  int axis = 0;
  Tensor matrix;
};

/// A Resize node as weights, one matrix for each dimension that it changes, for formats that lack its way of sampling.
/// Fails with kUnsupported where sizes are unknown, or where points outside the image take a given value.
Result<std::vector<ResizeWeights>> resize_weights(const Graph& graph, const Node& node);

}  // namespace smelt::formats
