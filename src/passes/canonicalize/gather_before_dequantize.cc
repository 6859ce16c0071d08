#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/pages.h"

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

/// The input from which a node takes rows.
size_t table_of(const Node& n) { return n.op == Op::kEmbeddingLookup ? 1 : 0; }

/// The narrow floats that the table of a node is deferred from; nullptr: none.
const Tensor* narrow_table(const Graph& g, const Node& n) {
  if ((n.op != Op::kGather || n.inputs.size() != 2) && n.op != Op::kEmbeddingLookup) return nullptr;
  const ValueId id = n.inputs[table_of(n)];
  const Tensor* const x = id == kNoValue ? nullptr : g.value(id).constant.get();
  const Tensor* const source = x ? narrow_source(*x) : nullptr;
  return source && source->shape() == x->shape() ? source : nullptr;
}

/// Rows of narrow floats become float32 as they are read, not all of them before.
void gather_narrow_floats(Graph& graph) {
  if (std::ranges::none_of(graph.nodes, [&](const Node& n) { return narrow_table(graph, n) != nullptr; })) return;
  std::vector<Node> nodes = std::move(graph.nodes);
  graph.nodes.clear();
  const auto narrow = [&](ValueId like, const Tensor& elements) {
    Value v = graph.form_of(like);
    v.type.dtype = elements.dtype();
    return v;
  };
  for (Node& n : nodes) {
    const Tensor* const source = narrow_table(graph, n);
    if (!source) {
      graph.nodes.push_back(std::move(n));
      continue;
    }
    ValueId& data = n.inputs[table_of(n)];
    Value table = narrow(data, *source);
    table.constant = std::make_shared<const Tensor>(*source);
    data = graph.add_value(std::move(table));
    const bool gathers = n.op == Op::kGather;  // a lookup gives float32 itself
    const ValueId y = n.outputs[0];
    if (gathers) n.outputs[0] = graph.add_value(narrow(y, *source));
    graph.nodes.push_back(n);
    if (gathers) append_cast(graph, n.outputs[0], y, "gather");
  }
}

}  // namespace

void gather_before_dequantize(Graph& graph) {
  gather_narrow_floats(graph);
  std::vector<int> producer(graph.values.size(), -1);  // of what dequantizes_constant()
  const auto producer_of_data = [&](const Node& n) {
    const ValueId x = n.op == Op::kGather && n.inputs.size() == 2 ? n.inputs[0] : kNoValue;
    return x == kNoValue ? -1 : producer[static_cast<size_t>(x)];
  };
  bool any = false;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    const Node& n = graph.nodes[k];
    any = any || producer_of_data(n) >= 0;
    if (dequantizes_constant(graph, n)) producer[static_cast<size_t>(n.outputs[0])] = static_cast<int>(k);
  }
  if (!any) return;
  std::vector<Node> nodes;
  for (const Node& node : graph.nodes) {
    const int from = producer_of_data(node);
    if (from < 0) {
      nodes.push_back(node);
      continue;
    }
    Node gather = node, dequantize = graph.nodes[static_cast<size_t>(from)];
    Value integers;
    integers.type = graph.value(node.outputs[0]).type;
    integers.type.dtype = graph.value(dequantize.inputs[0]).type.dtype;
    gather.inputs[0] = dequantize.inputs[0];
    gather.outputs = {graph.add_value(std::move(integers))};
    dequantize.inputs[0] = gather.outputs[0];
    dequantize.outputs = node.outputs;
    nodes.push_back(std::move(gather));
    nodes.push_back(std::move(dequantize));
  }
  graph.nodes = std::move(nodes);
  remove_dead_nodes(graph);
}

}  // namespace smelt
