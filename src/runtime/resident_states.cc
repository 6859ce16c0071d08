// Which variables stay with a back-end that has memory of its own.
#include <algorithm>

#include "ops/control/control.h"
#include "runtime/partition.h"

namespace smelt {

int state_of(const Node& node) {
  if (node.op != Op::kStateRead && node.op != Op::kStateWrite) return -1;
  return static_cast<const StateAttrs&>(*node.attrs).state;
}

std::vector<bool> resident_states(const Module& module, const Graph& graph, std::span<const PartitionNode> nodes,
                                  const std::function<const ValueType&(ValueId)>& types, const BackendSession& device) {
  std::vector<bool> resident(module.states.size(), true);
  std::vector<bool> used(resident.size(), false), written(resident.size(), false);
  std::vector<int> content(graph.values.size(), -1);  // the variable whose content a value is
  std::vector<bool> made_there(graph.values.size(), false);
  for (const PartitionNode& n : nodes) {
    const Node& node = *n.node;
    const int state = state_of(node);
    if (op_info(node.op).flags & kControl) return std::vector<bool>(resident.size(), false);
    const bool takes = n.device || n.alias;
    for (ValueId id : node.inputs)
      if (id != kNoValue && content[static_cast<size_t>(id)] >= 0 && (!takes || state >= 0))
        resident[static_cast<size_t>(content[static_cast<size_t>(id)])] = false;
    if (state >= 0) {
      const auto s = static_cast<size_t>(state);
      const ValueId id = node.op == Op::kStateRead ? node.outputs[0] : node.inputs[0];
      const ValueType& t = types(std::max(id, 0));
      const ValueType& declared = module.states[s].type;
      const bool same = id != kNoValue && t.is_static() && declared.is_static() && t.dtype == declared.dtype &&
                        t.shape == declared.shape && device.holds(t);
      if (!same || written[s]) resident[s] = false;
      used[s] = true;
      if (node.op == Op::kStateWrite) {
        if (!made_there[static_cast<size_t>(id)]) resident[s] = false;
        written[s] = true;
      } else if (id != kNoValue) {
        content[static_cast<size_t>(id)] = state;
      }
      continue;
    }
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      if (n.alias && node.inputs[0] != kNoValue) {
        content[static_cast<size_t>(id)] = content[static_cast<size_t>(node.inputs[0])];
        made_there[static_cast<size_t>(id)] = made_there[static_cast<size_t>(node.inputs[0])];
      } else {
        made_there[static_cast<size_t>(id)] = n.device;
      }
    }
  }
  for (ValueId id : graph.outputs)
    if (id != kNoValue && content[static_cast<size_t>(id)] >= 0)
      resident[static_cast<size_t>(content[static_cast<size_t>(id)])] = false;
  for (size_t s = 0; s < resident.size(); ++s) resident[s] = resident[s] && used[s];
  return resident;
}

}  // namespace smelt
