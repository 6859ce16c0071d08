#include "ops/core/verify.h"

#include "base/error.h"
#include "ops/control/control.h"
#include "ops/core/op.h"

namespace smelt {
namespace {

std::vector<int> called_graphs(const Node& node) {
  const OpInfo& info = op_info(node.op);
  return info.flags & kControl ? info.graphs(*node.attrs) : std::vector<int>();
}

Status verify_graph(const Module& module, const Graph& g) {
  const auto known = [&](ValueId id) { return id >= 0 && static_cast<size_t>(id) < g.values.size(); };
  std::vector<char> defined(g.values.size(), 0);
  for (size_t i = 0; i < g.values.size(); ++i) {
    const Value& v = g.values[i];
    if (!v.constant) continue;
    defined[i] = 1;
    if (v.type.dtype != v.constant->dtype())
      return InvalidModel("constant '", v.name, "' has another element type than its value");
  }
  for (ValueId id : g.inputs) {
    if (!known(id)) return Internal("graph input ", id, " is no value");
    if (defined[static_cast<size_t>(id)] == 2) return InvalidModel("input '", g.value(id).name, "' is listed twice");
    defined[static_cast<size_t>(id)] = 2;
  }
  for (const Node& n : g.nodes) {
    const auto fail = [&](const auto&... text) {
      return InvalidModel(n.where, n.where.empty() ? "" : " ", n.origin, ": ", text...);
    };
    if (n.op >= Op::kCount) return Internal("unknown operator");
    const OpInfo& info = op_info(n.op);
    const int ins = static_cast<int>(n.inputs.size()), outs = static_cast<int>(n.outputs.size());
    if (ins < info.min_inputs || ins > info.max_inputs)
      return fail(ins, " inputs, ", info.min_inputs, " to ", info.max_inputs, " expected");
    if (outs < info.min_outputs || outs > info.max_outputs)
      return fail(outs, " outputs, ", info.min_outputs, " to ", info.max_outputs, " expected");
    if (!n.attrs || !info.attrs_fit(n.attrs.get()))
      return Internal(info.name, " carries attributes of another operator");
    for (ValueId id : n.inputs) {
      if (id == kNoValue) continue;
      if (!known(id)) return fail("input ", id, " is no value");
      if (!defined[static_cast<size_t>(id)])
        return fail("input '", g.value(id).name, "' is used before it is computed");
    }
    for (ValueId id : n.outputs) {
      if (id == kNoValue) continue;
      if (!known(id)) return fail("output ", id, " is no value");
      if (defined[static_cast<size_t>(id)]) return fail("output '", g.value(id).name, "' is computed twice");
      defined[static_cast<size_t>(id)] = 1;
    }
    for (int sub : called_graphs(n))
      if (sub < 0 || static_cast<size_t>(sub) >= module.graphs.size()) return fail("graph ", sub, " does not exist");
    if (n.op == Op::kStateRead || n.op == Op::kStateWrite) {
      const int s = static_cast<const StateAttrs&>(*n.attrs).state;
      if (s < 0 || static_cast<size_t>(s) >= module.states.size()) return fail("variable ", s, " does not exist");
    }
  }
  for (ValueId id : g.outputs) {
    if (id == kNoValue) continue;
    if (!known(id)) return Internal("graph output ", id, " is no value");
    if (!defined[static_cast<size_t>(id)]) return InvalidModel("output '", g.value(id).name, "' is never computed");
  }
  return Ok();
}

/// Depth-first search for calls that come back to a graph on the stack.
Status no_recursion(const Module& module, size_t graph, std::vector<char>& seen, int depth) {
  if (depth > 64) return LimitReached("graphs are nested more than 64 deep");
  if (seen[graph] == 1) return InvalidModel("graph ", graph, " '", module.graphs[graph].name, "' calls itself");
  if (seen[graph] == 2) return Ok();
  seen[graph] = 1;
  for (const Node& n : module.graphs[graph].nodes)
    for (int sub : called_graphs(n)) SMELT_TRY(no_recursion(module, static_cast<size_t>(sub), seen, depth + 1));
  seen[graph] = 2;
  return Ok();
}

}  // namespace

Status verify(const Module& module) {
  if (module.methods.empty()) return InvalidModel("no method to run");
  for (const Graph& g : module.graphs)
    if (auto s = verify_graph(module, g); !s.ok())
      return module.graphs.size() > 1 ? s.error().within(Cat("graph '", g.name, "'")) : s.error();
  for (const Method& m : module.methods)
    if (m.graph < 0 || static_cast<size_t>(m.graph) >= module.graphs.size())
      return Internal("method '", m.name, "' has no graph");
  std::vector<char> seen(module.graphs.size(), 0);
  for (size_t i = 0; i < module.graphs.size(); ++i) SMELT_TRY(no_recursion(module, i, seen, 0));
  return Ok();
}

}  // namespace smelt
