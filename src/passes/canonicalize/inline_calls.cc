#include <algorithm>
#include <utility>
#include <vector>

#include "ops/control/bodies.h"
#include "ops/control/control.h"
#include "ops/core/op.h"
#include "passes/passes.h"
#include "passes/value_map.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

/// A graph that is called several times is copied only with constants of so few bytes: larger ones would be packed for
/// each copy.
constexpr size_t kMostCopiedBytes = size_t{64} << 10;
/// Calls nested deeper stay.
constexpr int kMostNested = 64;

bool equal_tensors(const ValueType& a, const ValueType& b) {
  return a.kind == ValueType::Kind::kTensor && b.kind == ValueType::Kind::kTensor && a.dtype == b.dtype &&
         a.ranked == b.ranked && a.shape == b.shape && same_quant_params(a.quant, b.quant);
}

class CallInliner {
 public:
  explicit CallInliner(Module& module) : module_(module), state_(module.graphs.size()), uses_(count_graph_uses()) {
    for (const Graph& graph : module.graphs) budget_ += graph.nodes.size();
  }

  void run() {
    for (size_t g = 0; g < module_.graphs.size(); ++g) expand(g, 0);
    if (!inlined_any_) return;
    const std::vector<int> uses = count_graph_uses();
    for (size_t g = 0; g < uses.size(); ++g)
      if (uses_[g] > 0 && uses[g] == 0) module_.graphs[g] = {.name = std::move(module_.graphs[g].name)};
  }

 private:
  enum class State : char { kUntouched, kOpen, kDone };

  /// How many nodes and methods run each graph.
  std::vector<int> count_graph_uses() const {
    std::vector<int> uses = count_callers(module_);
    for (const Method& m : module_.methods) ++uses[static_cast<size_t>(m.graph)];
    return uses;
  }

  /// Puts the nodes of the graphs that graph `g` calls in the place of the calls.
  void expand(size_t g, int depth) {
    if (state_[g] != State::kUntouched || depth > kMostNested) return;
    state_[g] = State::kOpen;
    const auto is_call = [](const Node& n) { return n.op == Op::kCall; };
    if (std::ranges::any_of(module_.graphs[g].nodes, is_call)) {
      std::vector<Node> nodes = std::exchange(module_.graphs[g].nodes, {});
      std::vector<Node> made;
      for (Node& n : nodes) {
        if (!is_call(n)) {
          made.push_back(std::move(n));
          continue;
        }
        const int called = static_cast<const CallAttrs&>(*n.attrs).graph;
        if (called >= 0 && static_cast<size_t>(called) < state_.size()) expand(static_cast<size_t>(called), depth + 1);
        if (may_inline(module_.graphs[g], n))
          append_body(module_.graphs[g], n, made);
        else
          made.push_back(std::move(n));
      }
      module_.graphs[g].nodes = std::move(made);
    }
    state_[g] = State::kDone;
  }

  bool may_inline(const Graph& graph, const Node& call) const {
    const auto called = static_cast<size_t>(static_cast<const CallAttrs&>(*call.attrs).graph);
    if (called >= state_.size() || state_[called] != State::kDone) return false;
    const Graph& body = module_.graphs[called];
    if (body.nodes.size() > budget_ || body.inputs.size() != call.inputs.size() ||
        body.outputs.size() != call.outputs.size())
      return false;
    for (size_t i = 0; i < call.inputs.size(); ++i)
      if (call.inputs[i] == kNoValue || body.inputs[i] == kNoValue || body.value(body.inputs[i]).constant ||
          !equal_tensors(graph.value(call.inputs[i]).type, body.value(body.inputs[i]).type))
        return false;
    std::vector<char> made(body.values.size(), 0);
    for (const Node& n : body.nodes)
      for (ValueId id : n.outputs)
        if (id != kNoValue) made[static_cast<size_t>(id)] = 1;
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      // Each output is the result of a node, and of no other output.
      if (body.outputs[i] == kNoValue || !std::exchange(made[static_cast<size_t>(body.outputs[i])], 0)) return false;
      if (call.outputs[i] != kNoValue &&
          !equal_tensors(graph.value(call.outputs[i]).type, body.value(body.outputs[i]).type))
        return false;
    }
    if (uses_[called] <= 1) return true;
    size_t bytes = 0;
    for (const Value& v : body.values)
      if (v.constant) bytes += v.constant->bytes();
    return bytes <= kMostCopiedBytes;
  }

  void append_body(Graph& graph, const Node& call, std::vector<Node>& nodes) {
    const Graph& body = module_.graphs[static_cast<size_t>(static_cast<const CallAttrs&>(*call.attrs).graph)];
    const size_t before = graph.values.size();
    ValueMap map(body);
    map.stands_for(body.inputs, call.inputs);
    map.stands_for(body.outputs, call.outputs);
    map.add_others(graph);
    for (size_t v = before; v < graph.values.size(); ++v) graph.values[v].name.clear();
    for (const Node& n : body.nodes) map.rename(nodes.emplace_back(n));
    budget_ -= body.nodes.size();
    inlined_any_ = true;
  }

  Module& module_;
  std::vector<State> state_;
  std::vector<int> uses_;  ///< before
  size_t budget_ = 64;     ///< nodes that may still be added: 64 and as many as the module has
  bool inlined_any_ = false;
};

}  // namespace

void inline_calls(Module& module) { CallInliner(module).run(); }

}  // namespace smelt
