#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/shape/shape.h"
#include "passes/fuse/pattern.h"
#include "passes/passes.h"

namespace smelt {
namespace {

/// Makes a constant second input of a Transpose its attribute.
void state_permutation(const Graph& graph, Node& n) {
  if (n.op != Op::kTranspose || n.inputs.size() != 2) return;
  auto perm = permutation_of(graph, n);
  if (!perm) return;
  n.attrs = make_attrs<TransposeAttrs>(TransposeAttrs(std::move(*perm)));
  n.inputs.resize(1);
}

/// The permutation of a Transpose that states it; null: another node.
const std::vector<int64_t>* permutation(const Node& n) {
  if (n.op != Op::kTranspose || n.inputs.size() != 1 || n.outputs[0] == kNoValue) return nullptr;
  const auto& perm = static_cast<const TransposeAttrs&>(*n.attrs).perm;
  return perm.empty() ? nullptr : &perm;
}

}  // namespace

void merge_transposes(Graph& graph) {
  std::vector<int> producer(graph.values.size(), -1);
  bool changed = false;
  for (size_t k = 0; k < graph.nodes.size(); ++k) {
    Node& n = graph.nodes[k];
    state_permutation(graph, n);
    const auto* second = permutation(n);
    if (!second) continue;
    producer[static_cast<size_t>(n.outputs[0])] = static_cast<int>(k);
    const int at = producer[static_cast<size_t>(n.inputs[0])];
    if (at < 0) continue;
    const Node& before = graph.nodes[static_cast<size_t>(at)];
    const std::vector<int64_t>& first = *permutation(before);
    if (first.size() != second->size() || graph.value(before.inputs[0]).type.quant) continue;
    std::vector<int64_t> both;
    for (const int64_t axis : *second) {
      if (axis < 0 || axis >= static_cast<int64_t>(first.size())) break;
      both.push_back(first[static_cast<size_t>(axis)]);
    }
    if (both.size() != first.size()) continue;
    n.inputs[0] = before.inputs[0];
    n.attrs = make_attrs<TransposeAttrs>(TransposeAttrs(std::move(both)));
    changed = true;
  }
  if (changed) remove_dead_nodes(graph);
}

}  // namespace smelt
