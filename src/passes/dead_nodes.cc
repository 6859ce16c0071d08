#include "ops/op.h"
#include "passes/passes.h"

namespace smelt {

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.values.size(), 0);
  for (const Node& n : graph.nodes)
    for (ValueId id : n.inputs)
      if (id != kNone) ++uses[static_cast<size_t>(id)];
  for (ValueId id : graph.outputs)
    if (id != kNone) ++uses[static_cast<size_t>(id)];
  return uses;
}

namespace {

/// Operators that give statistics or indices beside their result only where someone reads them.
bool has_optional_outputs(Op op) {
  return op == Op::kLayerNorm || op == Op::kGroupNorm || op == Op::kPool || op == Op::kBatchNorm;
}

}  // namespace

void remove_dead_nodes(Graph& graph) {
  std::vector<int> uses = count_uses(graph);
  std::vector<char> keep(graph.nodes.size(), 1);
  for (size_t k = graph.nodes.size(); k-- > 0;) {
    Node& n = graph.nodes[k];
    // A called graph may write variables: control flow stays.
    if (op_info(n.op).flags & (kEffect | kControl)) continue;
    if (has_optional_outputs(n.op)) {
      while (n.outputs.size() > 1 && (n.outputs.back() == kNone || uses[static_cast<size_t>(n.outputs.back())] == 0))
        n.outputs.pop_back();
    }
    bool used = false;
    for (ValueId id : n.outputs)
      if (id != kNone && uses[static_cast<size_t>(id)] > 0) used = true;
    if (used) continue;
    keep[k] = 0;
    for (ValueId id : n.inputs)
      if (id != kNone) --uses[static_cast<size_t>(id)];
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
