#include <algorithm>
#include <iterator>

#include "convert/convert.h"
#include "ops/core/node_spec.h"
#include "passes/passes.h"

namespace smelt::convert {
namespace {

/// Types and constant contents of a node's operands; empty unless all are static tensors.
struct Operands {
  std::vector<ValueType> inputs, outputs;
  std::vector<const Tensor*> constants;
  bool is_static = true;

  Operands(const Graph& graph, const Node& node) {
    for (const ValueId id : node.inputs) {
      inputs.push_back(id == kNoValue ? ValueType{} : graph.value(id).type);
      constants.push_back(id == kNoValue ? nullptr : graph.value(id).constant.get());
      is_static = is_static && (id == kNoValue || inputs.back().is_static());
    }
    for (const ValueId id : node.outputs) {
      outputs.push_back(id == kNoValue ? ValueType{} : graph.value(id).type);
      is_static = is_static && (id == kNoValue || outputs.back().is_static());
    }
  }
};

}  // namespace

void decompose_for(Module& module, const formats::Writer& writer, const formats::WriteOptions& options) {
  for (Graph& graph : module.graphs) {
    std::vector<Node> nodes;
    nodes.reserve(graph.nodes.size());
    for (const Node& node : graph.nodes) {
      nodes.push_back(node);
      if (!may_decompose(node) || writer.can_write(module, graph, node, options)) continue;
      const Operands operands(graph, node);
      if (!operands.is_static || node.outputs.empty()) continue;
      const auto parts = decompose({node, operands.inputs, operands.constants, operands.outputs});
      if (!parts) continue;
      const bool all = std::ranges::all_of(parts->graph->nodes, [&](const Node& part) {
        return writer.can_write(module, *parts->graph, part, options);
      });
      if (!all) continue;
      nodes.pop_back();
      std::ranges::move(splice(graph, node, *parts), std::back_inserter(nodes));
    }
    graph.nodes = std::move(nodes);
  }
}

}  // namespace smelt::convert
