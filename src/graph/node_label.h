#pragma once

#include <string>

#include "base/cat.h"
#include "graph/graph.h"

namespace smelt {

/// "subgraph 0, operator 12 CONV_2D": where the model's file has the node, for messages.
inline std::string node_label(const Node& node) {
  return node.where.empty() ? node.origin : Cat(node.where, " ", node.origin);
}

}  // namespace smelt
