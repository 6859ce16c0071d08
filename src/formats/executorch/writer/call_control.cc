// Branches, loops and calls of other graphs, and variables, as ATen calls between jumps.
#include "formats/executorch/writer/call_writer.h"
#include "ops/control/control.h"

namespace smelt::executorch {
namespace {

/// Values of the plan for inputs `first` and on.
std::vector<int> arguments(CallWriter& w, int first) {
  std::vector<int> out;
  for (int i = first; i < w.inputs(); ++i) out.push_back(w.has(i) ? w.in(i) : w.plan().null());
  return out;
}

void bind_outputs(CallWriter& w, const std::vector<int>& values) {
  for (int i = 0; i < w.outputs(); ++i)
    if (w.wants(i)) w.plan().bind(w.out_id(i), values[static_cast<size_t>(i)]);
}

}  // namespace

bool call_graph(CallWriter& w) {
  bind_outputs(w, w.plan().inlined(w.attrs<CallAttrs>().graph, arguments(w, 0)));
  return true;
}

bool call_if(CallWriter& w) {
  const auto& a = w.attrs<IfAttrs>();
  if (w.in_type(0).dtype != DType::kBool) return false;
  const int condition = w.in(0);
  const auto out = w.plan().branch(condition, a.then_graph, a.else_graph, arguments(w, 1));
  if (out) bind_outputs(w, *out);
  return out.has_value();
}

bool call_while(CallWriter& w) {
  const auto& a = w.attrs<WhileAttrs>();
  PlanWriter& p = w.plan();
  const auto test = [&](const std::vector<int>& values) { return p.inlined(a.cond_graph, values)[0]; };
  const std::vector<int> first = arguments(w, 0);
  const auto out = p.loop(test(first), first, [&](const std::vector<int>& values) {
    std::vector<int> next = p.inlined(a.body_graph, values);
    next.insert(next.begin(), test(next));
    return std::optional(std::move(next));
  });
  if (out) bind_outputs(w, *out);
  return out.has_value();
}

/// A loop without results of each round: their number is unknown.
bool call_loop(CallWriter& w) {
  const auto& a = w.attrs<LoopAttrs>();
  const auto carried = static_cast<size_t>(a.carried);
  for (int i = static_cast<int>(carried); i < w.outputs(); ++i)
    if (w.wants(i)) return false;
  PlanWriter& p = w.plan();
  const Graph& body = p.module().graphs[static_cast<size_t>(a.body_graph)];
  const int limit = w.has(0) ? p.reshape(w.cast(w.in(0), DType::kI64), Shape{}) : -1;
  const auto goes_on = [&](int condition, int round) {
    return limit < 0 ? condition : w.binary("logical_and", condition, w.compare("lt", round, limit));
  };
  // The body's first two arguments, which may have one dimension.
  const auto as_declared = [&](size_t i, int value) {
    const ValueType& t = body.value(body.inputs[i]).type;
    return t.is_static() && t.shape.rank() == 1 ? p.reshape(value, t.shape) : value;
  };
  const std::vector<int> given = arguments(w, 2);
  const int round = p.number(DType::kI64, 0),
            condition = w.has(1) ? p.reshape(w.in(1), Shape{}) : p.number(DType::kBool, 1);
  std::vector<int> first{round, condition};
  first.insert(first.end(), given.begin(), given.begin() + static_cast<std::ptrdiff_t>(carried));
  const auto out = p.loop(goes_on(condition, round), first, [&](const std::vector<int>& values) {
    std::vector<int> in{as_declared(0, values[0]), as_declared(1, values[1])};
    in.insert(in.end(), values.begin() + 2, values.end());
    in.insert(in.end(), given.begin() + static_cast<std::ptrdiff_t>(carried), given.end());
    const std::vector<int> results = p.inlined(a.body_graph, in);
    const int again = p.reshape(results[0], Shape{}), next = w.add(values[0], p.number(DType::kI64, 1));
    std::vector<int> all{goes_on(again, next), next, again};
    all.insert(all.end(), results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(carried));
    return std::optional(std::move(all));
  });
  if (out) bind_outputs(w, {out->begin() + 2, out->end()});
  return out.has_value();
}

/// A copy: a later write must not change what was read.
bool call_state_read(CallWriter& w) {
  const int x = w.plan().state(w.attrs<StateAttrs>().state);
  w.plan().bind(w.out_id(0), w.call("aten::clone", {x, w.plan().null()}));
  return true;
}

bool call_state_write(CallWriter& w) {
  const int state = w.plan().state(w.attrs<StateAttrs>().state), blocking = w.plan().boolean(false);
  if (!(w.shape(state) == w.in_type(0).shape)) return false;
  w.plan().plan().calls.push_back({"aten::copy_", "", {state, w.in(0), blocking, state}});
  return true;
}

}  // namespace smelt::executorch
