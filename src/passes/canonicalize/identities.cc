#include <algorithm>
#include <vector>

#include "ops/core/op.h"
#include "passes/passes.h"

namespace smelt {
namespace {

/// True if a node gives its first input as it is.
bool is_identity(const Graph& graph, const Node& n) {
  const bool joins_one = n.op == Op::kConcat && n.inputs.size() == 1;
  if ((n.op != Op::kCast && n.op != Op::kExpand && !joins_one) || n.inputs[0] == kNoValue || n.outputs[0] == kNoValue)
    return false;
  const ValueType &x = graph.value(n.inputs[0]).type, &y = graph.value(n.outputs[0]).type;
  if (x.kind != ValueType::Kind::kTensor || y.kind != x.kind || x.dtype == DType::kInvalid || x.dtype != y.dtype ||
      x.quant || y.quant)
    return false;
  return n.op != Op::kExpand || (x.is_static() && y.is_static() && x.shape == y.shape);
}

}  // namespace

void remove_identities(Graph& graph) {
  if (std::ranges::none_of(graph.nodes, [&](const Node& n) { return is_identity(graph, n); })) return;
  std::vector<ValueId> same(graph.values.size());
  std::vector<bool> keeps(graph.values.size(), false);  // what a graph takes and gives, and variables as they were
  for (size_t i = 0; i < same.size(); ++i) same[i] = static_cast<ValueId>(i);
  for (const ValueId id : graph.outputs)
    if (id != kNoValue) keeps[static_cast<size_t>(id)] = true;
  for (Node& n : graph.nodes) {
    for (ValueId& id : n.inputs)
      if (id != kNoValue) id = same[static_cast<size_t>(id)];
    if (op_info(n.op).flags & (kEffect | kControl)) {
      for (const ValueId id : n.outputs)
        if (id != kNoValue) keeps[static_cast<size_t>(id)] = true;
    } else if (is_identity(graph, n) && !keeps[static_cast<size_t>(n.inputs[0])] &&
               !keeps[static_cast<size_t>(n.outputs[0])]) {
      same[static_cast<size_t>(n.outputs[0])] = n.inputs[0];
    }
  }
  remove_dead_nodes(graph);
}

}  // namespace smelt
