#include "runtime/executor.h"

#include "base/error.h"
#include "graph/node_label.h"

namespace smelt {

Result<std::vector<Datum>> Executor::call(int index, std::span<const Datum> inputs, int depth) {
  if (depth > 64) return LimitReached("graphs are nested more than 64 deep");
  const Graph& g = module->graphs[static_cast<size_t>(index)];
  if (inputs.size() != g.inputs.size())
    return InvalidInput(inputs.size(), " inputs given, graph '", g.name, "' takes ", g.inputs.size());
  if (depth > 0) SMELT_TRY(control.enter(index, inputs));
  std::vector<Datum> values(g.values.size());
  std::vector<int> uses(g.values.size(), 0);
  for (const Node& n : g.nodes)
    for (ValueId id : n.inputs)
      if (id != kNoValue) ++uses[static_cast<size_t>(id)];
  for (ValueId id : g.outputs)
    if (id != kNoValue) ++uses[static_cast<size_t>(id)];
  for (size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].constant) values[i] = *g.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Datum d = inputs[i];
    const ValueType& t = g.value(g.inputs[i]).type;
    if (d.is_tensor() && t.quant && !d.tensor.quant()) d.tensor.set_quant(t.quant);
    values[static_cast<size_t>(g.inputs[i])] = std::move(d);
  }
  // Values that nodes made count as held until their last use; the results of a called graph then belong to the caller.
  std::vector<char> held(g.values.size(), 0);
  const auto let_go = [&](ValueId id) {
    const Datum& d = values[static_cast<size_t>(id)];
    if (held[static_cast<size_t>(id)] && d.is_tensor()) control.release(d.tensor.bytes());
    held[static_cast<size_t>(id)] = 0;
  };
  std::vector<Datum> in, out;
  for (const Node& n : g.nodes) {
    SMELT_TRY(control.tick());
    in.clear();
    for (ValueId id : n.inputs) in.push_back(id == kNoValue ? Datum{} : values[static_cast<size_t>(id)]);
    if (auto s = execute_node(*this, g, n, std::move(in), out, depth); !s.ok()) return s.error().within(node_label(n));
    // A long kernel may have used up the time.
    if (auto s = control.spend(0); !s.ok()) return s.error().within(node_label(n));
    for (size_t i = 0; i < out.size(); ++i) {
      if (n.outputs[i] == kNoValue) continue;
      Datum& value = values[static_cast<size_t>(n.outputs[i])] = std::move(out[i]);
      held[static_cast<size_t>(n.outputs[i])] = 1;
      if (tap && depth == 0) SMELT_TRY(tap->made(n, n.outputs[i], value, op_info(n.op).flags & kEffect));
    }
    for (ValueId id : n.inputs) {
      if (id == kNoValue || --uses[static_cast<size_t>(id)] > 0) continue;
      let_go(id);
      values[static_cast<size_t>(id)] = Datum{};
    }
  }
  std::vector<Datum> result;
  for (ValueId id : g.outputs) {
    result.push_back(id == kNoValue ? Datum{} : values[static_cast<size_t>(id)]);
    if (id != kNoValue && depth > 0) let_go(id);
  }
  return result;
}

}  // namespace smelt
