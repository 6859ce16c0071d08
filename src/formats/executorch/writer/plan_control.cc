// Graphs that others run, as calls in place, between jumps.
#include <map>
#include <set>
#include <utility>

#include "formats/executorch/writer/plan_writer.h"

namespace smelt::executorch {

std::vector<int> PlanWriter::inlined(int graph, const std::vector<int>& arguments) {
  const Graph& callee = module_.graphs[static_cast<size_t>(graph)];
  std::map<ValueId, Forms> outer = std::move(forms_);
  const Graph* caller = graph_;
  forms_.clear();
  graph_ = &callee;
  for (size_t i = 0; i < callee.inputs.size() && i < arguments.size(); ++i) bind(callee.inputs[i], arguments[i]);
  write_nodes(callee);
  std::vector<int> out;
  for (const ValueId id : callee.outputs) out.push_back(tensor(id));
  forms_ = std::move(outer);
  graph_ = caller;
  return out;
}

size_t PlanWriter::jump_if_false(int condition) {
  plan_.calls.push_back({.name = "", .overload = "", .args = {condition}});
  return plan_.calls.size() - 1;
}

int PlanWriter::copy(int x) {
  const FileValue from = at(x);
  return call("aten::clone", "out", {x, null()}, from.dtype, from.shape);
}

std::optional<std::vector<int>> PlanWriter::branch(int condition, int then_graph, int else_graph,
                                                   const std::vector<int>& arguments) {
  const auto land = [&](size_t from) { plan_.calls[from].jump = static_cast<int>(plan_.calls.size()); };
  // Which of a delegate's arguments are results shows in what lies at their addresses before, which no one knows
  // behind a jump.
  const bool delegate = std::exchange(delegate_, false);
  const size_t to_else = jump_if_false(condition);
  std::vector<int> results;
  for (const int y : inlined(then_graph, arguments)) results.push_back(copy(y));
  const size_t to_end = jump_if_false(boolean(false));
  land(to_else);
  const std::vector<int> others = inlined(else_graph, arguments);
  bool same = others.size() == results.size();
  for (size_t i = 0; i < others.size() && same; ++i) {
    same = at(others[i]).dtype == at(results[i]).dtype && at(others[i]).shape == at(results[i]).shape;
    if (same) call_to("aten::clone", "out", {others[i], null()}, {results[i]});
  }
  land(to_end);
  delegate_ = delegate;
  return same ? std::optional(std::move(results)) : std::nullopt;
}

std::optional<std::vector<int>> PlanWriter::loop(int condition, const std::vector<int>& carried, const LoopBody& body) {
  const bool delegate = std::exchange(delegate_, false);  // as in branch()
  std::vector<int> kept{copy(condition)};
  for (const int x : carried) kept.push_back(copy(x));
  const size_t exit = jump_if_false(kept[0]);
  auto next = body({kept.begin() + 1, kept.end()});
  delegate_ = delegate;
  if (!next || next->size() != kept.size()) return std::nullopt;
  // A value that is carried to another place is read before that is written.
  for (size_t i = 0; i < kept.size(); ++i)
    if ((*next)[i] != kept[i] && std::ranges::count(kept, (*next)[i]) > 0) (*next)[i] = copy((*next)[i]);
  for (size_t i = 0; i < kept.size(); ++i) {
    const FileValue &from = at((*next)[i]), &to = at(kept[i]);
    if (from.dtype != to.dtype || !(from.shape == to.shape)) return std::nullopt;
    if ((*next)[i] != kept[i]) call_to("aten::clone", "out", {(*next)[i], null()}, {kept[i]});
  }
  const size_t back = jump_if_false(boolean(false));
  plan_.calls[back].jump = static_cast<int>(exit);
  plan_.calls[exit].jump = static_cast<int>(plan_.calls.size());
  loops_.emplace_back(exit, back);
  return std::vector<int>(kept.begin() + 1, kept.end());
}

}  // namespace smelt::executorch
