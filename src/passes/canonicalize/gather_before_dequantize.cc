#include <cmath>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"

namespace smelt {
namespace {

/// True if a node dequantizes constant integers with one scale: it computes the same on any choice of them.
bool dequantizes_constant(const Graph& g, const Node& n) {
  if (n.op != Op::kDequantizeLinear || n.inputs.size() < 2 || n.outputs.size() != 1 || n.outputs[0] == kNoValue)
    return false;
  if (static_cast<const QuantizeLinearAttrs&>(*n.attrs).block != 0) return false;
  const auto constant = [&](size_t i) {
    return n.inputs[i] == kNoValue ? nullptr : g.value(n.inputs[i]).constant.get();
  };
  const Tensor *x = constant(0), *scale = constant(1);
  if (!x || !scale || scale->elements() != 1 || scale->rank() != 0 || !is_integer(x->dtype()) || x->quant())
    return false;
  return n.inputs.size() < 3 || n.inputs[2] == kNoValue || (constant(2) && constant(2)->elements() == 1);
}

}  // namespace

void gather_before_dequantize(Graph& graph) {
  std::vector<int> producer(graph.values.size(), -1);
  std::vector<Node> nodes;
  bool changed = false;
  for (const Node& node : graph.nodes) {
    const ValueId x = node.op == Op::kGather && node.inputs.size() == 2 ? node.inputs[0] : kNoValue;
    const int from = x == kNoValue ? -1 : producer[static_cast<size_t>(x)];
    if (from < 0) {
      if (dequantizes_constant(graph, node))
        producer[static_cast<size_t>(node.outputs[0])] = static_cast<int>(nodes.size());
      nodes.push_back(node);
      continue;
    }
    Node gather = node, dequantize = nodes[static_cast<size_t>(from)];
    Value integers;
    integers.type = graph.value(node.outputs[0]).type;
    integers.type.dtype = graph.value(dequantize.inputs[0]).type.dtype;
    gather.inputs[0] = dequantize.inputs[0];
    gather.outputs = {graph.add_value(std::move(integers))};
    dequantize.inputs[0] = gather.outputs[0];
    dequantize.outputs = node.outputs;
    nodes.push_back(std::move(gather));
    nodes.push_back(std::move(dequantize));
    changed = true;
  }
  if (!changed) return;
  graph.nodes = std::move(nodes);
  remove_dead_nodes(graph);
}

}  // namespace smelt
