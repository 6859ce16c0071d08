#pragma once

#include <vector>

#include "graph/graph.h"

namespace smelt {

/// One node as a graph is split between the host and a device.
struct SplitNode {
  const Node* node = nullptr;
  bool device = false;  ///< in: a device kernel exists; out: it shall run
  bool alias = false;   ///< costs nothing and stays where its input is
  double work = 0;      ///< element operations, roughly
};

/// An order of the nodes in which device work comes in as few runs as possible. Data dependences hold; a node with
/// effects stays behind everything that stood before it. Device nodes between host nodes on both sides whose work does
/// not pay for the way there and back are given to the host (`device` = false). Returns indices into `nodes`.
std::vector<int> split(const Graph& graph, std::vector<SplitNode>& nodes);

}  // namespace smelt
