// Nodes of a plan that stand for a node that no back-end runs.
#include "runtime/decompose_node.h"

#include <algorithm>

#include "runtime/node_facts.h"

namespace smelt {
namespace {

bool is_view(const Node& part) { return (op_info(part.op).flags & kView) != 0; }

bool runs(const DecomposedNode& parts, const Node& part, ConstantLifetime lifetime, const Supports& supports) {
  std::vector<ValueType> types;
  std::vector<const Tensor*> contents;
  for (ValueId id : part.inputs) {
    types.push_back(id == kNoValue ? ValueType{} : parts.graph->value(id).type);
    contents.push_back(id == kNoValue ? nullptr : parts.graph->value(id).constant.get());
    if (contents.back() && std::ranges::count(parts.inputs, id) == 0) lifetime = ConstantLifetime::kPlan;
    if (id != kNoValue && elements_of(types.back()) == 0) return false;
  }
  return supports({{part, types, contents, {&parts.graph->value(part.outputs[0]).type, 1}}, lifetime});
}

}  // namespace

bool all_run(const DecomposedNode& parts, const NodeRequest& node, const Supports& supports) {
  return std::ranges::all_of(parts.graph->nodes, [&](const Node& part) {
    return is_view(part) || runs(parts, part, node.lifetime, supports);
  });
}

bool most_run(const DecomposedNode& parts, const NodeRequest& node, const Supports& supports) {
  constexpr double kLittle = 0.25;
  double all = 0, fast = 0, slow = 0;
  for (const ValueType& t : node.inputs) all = std::max(all, elements_of(t));
  for (const Node& part : parts.graph->nodes) {
    if (is_view(part)) continue;
    const double made = elements_of(parts.graph->value(part.outputs[0]).type);
    if (!runs(parts, part, node.lifetime, supports)) {
      slow += made;
      continue;
    }
    fast = std::max(fast, made);
    for (ValueId id : part.inputs)
      if (id != kNoValue) fast = std::max(fast, elements_of(parts.graph->value(id).type));
  }
  return fast >= all && slow <= kLittle * all;
}

std::vector<const Node*> splice(PlanParts& plan, const Graph& graph, const Node& node, const DecomposedNode& parts) {
  if (!plan.decomposed) plan.decomposed = std::make_unique<Graph>(graph);
  plan.graph = plan.decomposed.get();
  std::vector<const Node*> added;
  for (Node& part : splice(*plan.decomposed, node, parts))
    added.push_back(&plan.part_nodes.emplace_back(std::move(part)));
  return added;
}

}  // namespace smelt
