#include <algorithm>
#include <optional>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

bool is_copy(const Node& n) {
  switch (n.op) {
    case Op::kCast:
    case Op::kExpand:
      return true;
    case Op::kConcat:
      return n.inputs.size() == 1;
    case Op::kUnary:
      return static_cast<const UnaryAttrs&>(*n.attrs).fn == Unary::kIdentity;
    default:
      return false;
  }
}

bool of_one_type(const ValueType& x, const ValueType& y) {
  return x.kind == ValueType::Kind::kTensor && y.kind == x.kind && x.dtype != DType::kInvalid && x.dtype == y.dtype &&
         same_quant_params(x.quant, y.quant);
}

/// True if a node gives its first input as it is.
bool is_identity(const Graph& graph, const Node& n) {
  if (!is_copy(n) || n.inputs[0] == kNoValue || n.outputs[0] == kNoValue) return false;
  const ValueType &x = graph.value(n.inputs[0]).type, &y = graph.value(n.outputs[0]).type;
  if (!of_one_type(x, y) || (x.quant && n.op != Op::kUnary)) return false;
  return n.op != Op::kExpand || (x.is_static() && y.is_static() && x.shape == y.shape);
}

/// The operator that a second one behind it undoes, if both values have one type: back to the same integers.
std::optional<Op> undone(Op op) {
  if (op == Op::kQuantize) return Op::kDequantize;
  return op == Op::kBitCast ? std::optional(Op::kBitCast) : std::nullopt;
}

/// Puts given[v] in place of each value v for which there is one.
void give_as(const std::vector<ValueId>& given, Graph& graph) {
  for (Node& n : graph.nodes)
    for (auto* ids : {&n.inputs, &n.outputs})
      for (ValueId& id : *ids)
        if (id != kNoValue && given[static_cast<size_t>(id)] != kNoValue) id = given[static_cast<size_t>(id)];
}

}  // namespace

void remove_identities(Graph& graph) {
  if (std::ranges::none_of(graph.nodes, [&](const Node& n) { return undone(n.op) || is_identity(graph, n); })) return;
  std::vector<ValueId> same(graph.values.size());
  std::vector<int> producer(graph.values.size(), -1);
  std::vector<ValueId> given(graph.values.size(), kNoValue);  // the outputs that are copies of a node's value
  std::vector<bool> keeps(graph.values.size(), false);  // what a graph takes and gives, and variables as they were
  for (size_t i = 0; i < same.size(); ++i) same[i] = static_cast<ValueId>(i);
  for (const ValueId id : graph.outputs)
    if (id != kNoValue) keeps[static_cast<size_t>(id)] = true;
  // The value that the output of a node is; kNoValue: another one.
  const auto source = [&](const Node& n) {
    if (is_identity(graph, n)) return n.inputs[0];
    const auto before = undone(n.op);
    const int k = before && n.inputs[0] != kNoValue ? producer[static_cast<size_t>(n.inputs[0])] : -1;
    if (k < 0 || n.outputs[0] == kNoValue || graph.nodes[static_cast<size_t>(k)].op != *before) return kNoValue;
    const ValueId x = graph.nodes[static_cast<size_t>(k)].inputs[0];
    return of_one_type(graph.value(x).type, graph.value(n.outputs[0]).type) ? x : kNoValue;
  };
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    Node& n = graph.nodes[k];
    for (ValueId& id : n.inputs)
      if (id != kNoValue) id = same[static_cast<size_t>(id)];
    for (const ValueId id : n.outputs)
      if (id != kNoValue) producer[static_cast<size_t>(id)] = static_cast<int>(k);
    if (op_info(n.op).flags & (kEffect | kControl)) {
      for (const ValueId id : n.outputs)
        if (id != kNoValue) keeps[static_cast<size_t>(id)] = true;
    } else if (const ValueId x = source(n); x != kNoValue && !keeps[static_cast<size_t>(x)]) {
      const ValueId y = n.outputs[0];
      if (!keeps[static_cast<size_t>(y)]) {
        same[static_cast<size_t>(y)] = x;
      } else if (is_identity(graph, n) && producer[static_cast<size_t>(x)] >= 0) {
        keeps[static_cast<size_t>(x)] = true;
        given[static_cast<size_t>(x)] = y;
        n.inputs[0] = n.outputs[0] = kNoValue;
      }
    }
  }
  give_as(given, graph);
  remove_dead_nodes(graph);
}

}  // namespace smelt
