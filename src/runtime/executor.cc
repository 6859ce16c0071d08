#include "runtime/executor.h"

#include "base/error.h"

namespace smelt {

Result<std::vector<Datum>> Executor::call(int index, std::span<const Datum> inputs, int depth) {
  if (depth > 64) return LimitReached("graphs are nested more than 64 deep");
  const Graph& g = module->graphs[static_cast<size_t>(index)];
  if (inputs.size() != g.inputs.size())
    return InvalidInput(inputs.size(), " inputs given, graph '", g.name, "' takes ", g.inputs.size());
  std::vector<Datum> values(g.values.size());
  std::vector<int> uses(g.values.size(), 0);
  for (const Node& n : g.nodes)
    for (ValueId id : n.inputs)
      if (id != kNone) ++uses[static_cast<size_t>(id)];
  for (ValueId id : g.outputs)
    if (id != kNone) ++uses[static_cast<size_t>(id)];
  for (size_t i = 0; i < g.values.size(); ++i)
    if (g.values[i].constant) values[i] = *g.values[i].constant;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Datum d = inputs[i];
    const ValueType& t = g.value(g.inputs[i]).type;
    if (d.is_tensor() && t.quant && !d.tensor.quant()) d.tensor.set_quant(t.quant);
    values[static_cast<size_t>(g.inputs[i])] = std::move(d);
  }
  std::vector<Datum> in, out;
  for (const Node& n : g.nodes) {
    SMELT_TRY(control.tick());
    in.clear();
    for (ValueId id : n.inputs) in.push_back(id == kNone ? Datum{} : values[static_cast<size_t>(id)]);
    if (auto s = execute_node(*this, g, n, std::move(in), out, depth); !s.ok()) return s.error().within(node_label(n));
    for (size_t i = 0; i < out.size(); ++i)
      if (n.outputs[i] != kNone) values[static_cast<size_t>(n.outputs[i])] = std::move(out[i]);
    for (ValueId id : n.inputs) {
      if (id == kNone || --uses[static_cast<size_t>(id)] > 0) continue;
      Datum& d = values[static_cast<size_t>(id)];
      if (d.is_tensor() && !g.value(id).constant) control.release(d.tensor.bytes());
      d = Datum{};
    }
  }
  std::vector<Datum> result;
  for (ValueId id : g.outputs) result.push_back(id == kNone ? Datum{} : values[static_cast<size_t>(id)]);
  return result;
}

}  // namespace smelt
