#pragma once

#include <string>
#include <vector>

#include "compare/match.h"

namespace smelt {

/// The nodes of both graphs between paired values, and what tells them apart.
struct Blame {
  std::vector<int> first, second;        ///< indices of nodes, in the graphs' order
  int node = -1;                         ///< the node that is to blame most likely
  bool in_first = false;                 ///< `node` is one that the second graph lacks
  std::vector<std::string> differences;  ///< "alpha: 0.1, 0.01": attributes, constants, quantization, missing nodes
};

/// What makes value `at` of the second graph. Precondition: it is paired, and a node makes it.
Blame blame(const Graph& first, const Graph& second, const Pairs& pairs, ValueId at);

/// A node for people: its name, else that of its first output, with the operator of the file.
std::string title(const Graph& graph, const Node& node);

}  // namespace smelt
