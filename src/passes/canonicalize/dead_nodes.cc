#include <algorithm>

#include "ops/core/op.h"
#include "passes/passes.h"

namespace smelt {

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.values.size(), 0);
  for (const Node& n : graph.nodes)
    for (ValueId id : n.inputs)
      if (id != kNoValue) ++uses[static_cast<size_t>(id)];
  for (ValueId id : graph.outputs)
    if (id != kNoValue) ++uses[static_cast<size_t>(id)];
  return uses;
}

namespace {

/// Variadic operators keep their outputs: their number has a meaning.
void drop_unused_outputs(Node& n, const std::vector<int>& uses) {
  const OpInfo& info = op_info(n.op);
  if (info.max_outputs == kMany) return;
  while (static_cast<int>(n.outputs.size()) > std::max(info.min_outputs, 1) &&
         (n.outputs.back() == kNoValue || uses[static_cast<size_t>(n.outputs.back())] == 0))
    n.outputs.pop_back();
}

}  // namespace

void drop_unread_outputs(Graph& graph) {
  const std::vector<int> uses = count_uses(graph);
  for (Node& n : graph.nodes)
    if (!(op_info(n.op).flags & (kEffect | kControl))) drop_unused_outputs(n, uses);
}

void remove_dead_nodes(Graph& graph) {
  std::vector<int> uses = count_uses(graph);
  std::vector<char> keep(graph.nodes.size(), 1);
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    Node& n = graph.nodes[k];
    // A called graph may write variables: control flow stays.
    if (op_info(n.op).flags & (kEffect | kControl)) continue;
    drop_unused_outputs(n, uses);
    bool used = false;
    for (ValueId id : n.outputs)
      if (id != kNoValue && uses[static_cast<size_t>(id)] > 0) used = true;
    if (used) continue;
    keep[k] = 0;
    for (ValueId id : n.inputs)
      if (id != kNoValue) --uses[static_cast<size_t>(id)];
  }
  size_t kept = 0;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    if (!keep[k]) continue;
    if (kept != k) graph.nodes[kept] = std::move(graph.nodes[k]);
    ++kept;
  }
  graph.nodes.resize(kept);
}

}  // namespace smelt
