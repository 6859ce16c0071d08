#include "passes/passes.h"

namespace smelt {

void fuse_into_producers(Graph& graph,
                         const std::function<std::optional<Node>(const Node& before, const Node& node)>& fused) {
  const std::vector<int> uses = count_uses(graph);
  std::vector<int> producer(graph.values.size(), -1);
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    Node& n = graph.nodes[k];
    const ValueId x = n.inputs.empty() ? kNoValue : n.inputs[0];
    const int from = x == kNoValue ? -1 : producer[static_cast<size_t>(x)];
    if (from >= 0 && uses[static_cast<size_t>(x)] == 1) {
      const Node& before = graph.nodes[static_cast<size_t>(from)];
      if (std::optional<Node> both = fused(before, n)) {
        both->outputs = n.outputs;
        both->origin = before.origin + "+" + n.origin;
        n = std::move(*both);  // the one before it is dead
        producer.resize(graph.values.size(), -1);
      }
    }
    for (ValueId id : n.outputs)
      if (id != kNoValue) producer[static_cast<size_t>(id)] = static_cast<int>(k);
  }
  remove_dead_nodes(graph);
}

}  // namespace smelt
