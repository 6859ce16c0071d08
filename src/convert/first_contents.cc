// Variables whose first contents a graph assigns that runs once, as CALL_ONCE of TFLite does.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "convert/node_runner.h"
#include "ops/control/control.h"
#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "tensor/numeric.h"

namespace smelt::convert {
namespace {

using Contents = std::map<int, std::shared_ptr<const Tensor>>;  ///< by state
constexpr int kMostCalls = 16;                                  ///< that follow each other

int state_of(const Node& node) { return static_cast<const StateAttrs&>(*node.attrs).state; }
bool is_state(const Node& node) { return node.op == Op::kStateRead || node.op == Op::kStateWrite; }

/// Adds what a graph without operands assigns. False if it does anything but assign constants.
bool add_assigned(const Module& module, int graph, int depth, Contents& out) {
  const Graph& g = module.graphs[static_cast<size_t>(graph)];
  if (depth > kMostCalls || !g.inputs.empty() || !g.outputs.empty()) return false;
  return std::ranges::all_of(g.nodes, [&](const Node& node) {
    if (node.op == Op::kCall) {
      const int called = static_cast<const CallAttrs&>(*node.attrs).graph;
      return node.inputs.empty() && add_assigned(module, called, depth + 1, out);
    }
    if (node.op != Op::kStateWrite || !g.value(node.inputs[0]).constant) return false;
    out[state_of(node)] = g.value(node.inputs[0]).constant;
    return true;
  });
}

/// True if one node reads the flag and only graph `assigning` writes it.
bool is_own_flag(const Module& module, int flag, int assigning) {
  int reads = 0, other_writes = 0;
  for (size_t g = 0; g < module.graphs.size(); ++g)
    for (const Node& node : module.graphs[g].nodes) {
      if (!is_state(node) || state_of(node) != flag) continue;
      reads += node.op == Op::kStateRead;
      other_writes += node.op == Op::kStateWrite && static_cast<int>(g) != assigning;
    }
  return reads == 1 && other_writes == 0;
}

/// What the node assigns in the first run and never again; empty if it does something else. `flag`: the state that
/// tells the first run from others.
Contents assigned_once(const Module& module, const Graph& graph, const Node& node, int& flag) {
  if (node.op != Op::kIf || node.inputs.size() != 1 || !node.outputs.empty()) return {};
  const auto& a = static_cast<const IfAttrs&>(*node.attrs);
  const auto read = std::ranges::find_if(
      graph.nodes, [&](const Node& n) { return n.op == Op::kStateRead && n.outputs[0] == node.inputs[0]; });
  if (read == graph.nodes.end() || !module.graphs[static_cast<size_t>(a.then_graph)].nodes.empty()) return {};
  flag = state_of(*read);
  const StateVar& v = module.states[static_cast<size_t>(flag)];
  Contents out;
  if (!v.initial.none() || !v.type.is_static() || v.type.dtype != DType::kBool ||
      !add_assigned(module, a.else_graph, 0, out))
    return {};
  const auto set = out.extract(flag);
  if (!set || set.mapped()->elements() != 1 || get_int(*set.mapped(), 0) == 0 ||
      !is_own_flag(module, flag, a.else_graph))
    return {};
  return out;
}

/// True if nothing but values of the type of its first contents is assigned to a state.
bool keeps_type(const Module& module, int state) {
  const ValueType& type = module.states[static_cast<size_t>(state)].type;
  return std::ranges::all_of(module.graphs, [&](const Graph& g) {
    return std::ranges::all_of(g.nodes, [&](const Node& node) {
      if (node.op != Op::kStateWrite || state_of(node) != state) return true;
      const ValueType& t = g.value(node.inputs[0]).type;
      return t.is_static() && t.shape == type.shape && t.dtype == type.dtype;
    });
  });
}

/// Removes the states that no node uses.
void drop_unused_states(Module& module) {
  std::set<int> used;
  for (const Graph& g : module.graphs)
    for (const Node& node : g.nodes)
      if (is_state(node)) used.insert(state_of(node));
  std::vector<StateVar> kept;
  std::map<int, int> now;
  for (const int state : used) {
    now[state] = static_cast<int>(kept.size());
    kept.push_back(module.states[static_cast<size_t>(state)]);
  }
  for (Graph& g : module.graphs)
    for (Node& node : g.nodes)
      if (is_state(node)) node.attrs = make_attrs<StateAttrs>(now[state_of(node)]);
  module.states = std::move(kept);
}

}  // namespace

void give_first_contents(Module& module) {
  if (module.states.empty()) return;
  Module changed = module;
  Graph& main = changed.graphs[static_cast<size_t>(changed.methods[0].graph)];
  std::vector<int> given;
  for (size_t i = 0; i < main.nodes.size(); ++i) {
    int flag = -1;
    const Contents contents = assigned_once(changed, main, main.nodes[i], flag);
    const auto used_before = [&](const Node& n) { return is_state(n) && contents.contains(state_of(n)); };
    if (contents.empty() ||
        std::ranges::any_of(main.nodes.begin(), main.nodes.begin() + static_cast<int64_t>(i), used_before))
      continue;
    for (const auto& [state, tensor] : contents) {
      StateVar& v = changed.states[static_cast<size_t>(state)];
      v.type = ValueType::tensor(tensor->dtype(), tensor->shape());
      v.initial = *tensor;
      given.push_back(state);
    }
    const int assigning = static_cast<const IfAttrs&>(*main.nodes[i].attrs).else_graph;
    changed.graphs[static_cast<size_t>(assigning)].nodes.clear();
    const ValueId once = main.nodes[i].inputs[0];
    main.nodes.erase(main.nodes.begin() + static_cast<int64_t>(i));
    // The flag was read in front of it.
    i -= 1 + std::erase_if(main.nodes, [&](const Node& n) { return n.op == Op::kStateRead && n.outputs[0] == once; });
  }
  if (given.empty() || !infer_module(changed).ok()) return;
  if (!std::ranges::all_of(given, [&](int state) { return keeps_type(changed, state); })) return;
  drop_unused_states(changed);
  module = std::move(changed);
}

}  // namespace smelt::convert
