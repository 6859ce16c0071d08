// Loops that count their rounds in a variable, as formats spell a loop over a range, as Loop.
#include <algorithm>
#include <map>
#include <optional>

#include "convert/convert.h"
#include "ops/control/control.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt::convert {
namespace {

/// One graph with the producers of its values.
class Definitions {
 public:
  explicit Definitions(const Graph& g) : g_(g), producer_(g.values.size(), nullptr) {
    for (const Node& n : g.nodes)
      for (const ValueId id : n.outputs)
        if (id != kNoValue) producer_[static_cast<size_t>(id)] = &n;
  }
  /// The value that this one is a copy of; `views`: or another shape of.
  ValueId source(ValueId id, bool views) const {
    for (const Node* n = producer(id); n; n = producer(id)) {
      const bool copy = n->op == Op::kUnary && static_cast<const UnaryAttrs&>(*n->attrs).fn == Unary::kIdentity;
      const bool view = n->op == Op::kReshape || n->op == Op::kSqueeze || n->op == Op::kUnsqueeze;
      if (!copy && !(views && view)) break;
      id = n->inputs[0];
    }
    return id;
  }
  /// The operands of a function of two values; nullptr: the value is another one's.
  const std::vector<ValueId>* binary(ValueId id, Binary fn) const {
    const Node* n = producer(id);
    if (!n || n->op != Op::kBinary) return nullptr;
    const auto& a = static_cast<const BinaryAttrs&>(*n->attrs);
    return a.fn == fn && a.alpha == 1 && a.act.kind == ActKind::kNone ? &n->inputs : nullptr;
  }
  /// True for a constant with one element of that value.
  bool is_number(ValueId id, int64_t value) const {
    const auto& c = g_.value(source(id, true)).constant;
    return c && c->elements() == 1 && !c->quant() && (is_integer(c->dtype()) || c->dtype() == DType::kBool) &&
           get_int(*c, 0) == value;
  }

 private:
  const Node* producer(ValueId id) const { return id == kNoValue ? nullptr : producer_[static_cast<size_t>(id)]; }

  const Graph& g_;
  std::vector<const Node*> producer_;
};

/// round < limit, and a further condition if there is one; all without views and copies.
struct Test {
  ValueId round = kNoValue, limit = kNoValue, condition = kNoValue;
};

/// What a value may be as such a test: of two comparisons either is the condition.
std::vector<Test> tests_of(const Definitions& in, ValueId truth) {
  std::vector<Test> out;
  const auto add = [&](ValueId id, ValueId condition) {
    const auto* less = in.binary(in.source(id, true), Binary::kLess);
    if (!less) return;
    if (condition != kNoValue) condition = in.is_number(condition, 1) ? kNoValue : in.source(condition, true);
    out.push_back({in.source((*less)[0], true), in.source((*less)[1], true), condition});
  };
  if (const auto* both = in.binary(in.source(truth, true), Binary::kLogicalAnd)) {
    add((*both)[0], (*both)[1]);
    add((*both)[1], (*both)[0]);
  } else {
    add(truth, kNoValue);
  }
  return out;
}

std::optional<size_t> position(const std::vector<ValueId>& list, ValueId id) {
  const auto it = std::ranges::find(list, id);
  return id == kNoValue || it == list.end() ? std::nullopt : std::optional(static_cast<size_t>(it - list.begin()));
}

/// Which variables of a While count its rounds. A program computes the condition as a variable of its own.
struct Count {
  size_t round = 0, limit = 0;
  std::optional<size_t> condition;  ///< a further condition
  std::optional<size_t> test;       ///< what the condition's graph passes on
};

bool is_scalar(const ValueType& t, DType dtype) {
  return t.kind == ValueType::Kind::kTensor && t.dtype == dtype && t.ranked && t.shape.rank() == 0;
}

/// The variable whose next value is `next`.
std::optional<size_t> state_of(const Definitions& in, const Graph& body, ValueId next) {
  for (size_t i = 0; i < body.outputs.size(); ++i)
    if (in.source(body.outputs[i], true) == next) return i;
  return std::nullopt;
}

/// A While as count_of() looks at it.
struct Counter {
  const Graph& g;
  const Node& loop;
  const Graph &cond, &body;
  Definitions outside{g}, inside{body};

  /// By the test in the condition's graph.
  std::optional<Count> by_condition(const Test& t) const {
    const auto round = position(cond.inputs, t.round), limit = position(cond.inputs, t.limit);
    Count c{.condition = position(cond.inputs, t.condition)};
    if (!round || !limit || (t.condition != kNoValue && !c.condition)) return std::nullopt;
    c.round = *round;
    c.limit = *limit;
    return c;
  }
  /// By a variable that is the test of the next round's values, and before the loop of the first ones.
  std::optional<Count> by_variable(size_t variable, const Test& again, const Test& first) const {
    const auto round = state_of(inside, body, again.round), limit = position(body.inputs, again.limit);
    if (!round || !limit || !outside.is_number(first.round, 0) ||
        outside.source(loop.inputs[*limit], true) != first.limit)
      return std::nullopt;
    Count c{.round = *round, .limit = *limit, .condition = {}, .test = variable};
    if (again.condition == kNoValue) return first.condition == kNoValue ? std::optional(c) : std::nullopt;
    c.condition = state_of(inside, body, again.condition);
    if (!c.condition) return std::nullopt;
    const ValueId start = loop.inputs[*c.condition];
    const bool same =
        first.condition == kNoValue ? outside.is_number(start, 1) : outside.source(start, true) == first.condition;
    return same ? std::optional(c) : std::nullopt;
  }

  /// True if the variables do count: from 0 in steps of 1, up to a limit that stays.
  bool counts(const Count& c) const {
    const auto* sum = inside.binary(inside.source(body.outputs[c.round], true), Binary::kAdd);
    const auto steps = [&](size_t i) {
      return inside.source((*sum)[i], true) == body.inputs[c.round] && inside.is_number((*sum)[1 - i], 1);
    };
    if (!sum || (!steps(0) && !steps(1)) || !outside.is_number(loop.inputs[c.round], 0) ||
        inside.source(body.outputs[c.limit], false) != body.inputs[c.limit])
      return false;
    const auto scalar = [&](size_t i, DType dtype) {
      return is_scalar(body.value(body.inputs[i]).type, dtype) && is_scalar(g.value(loop.inputs[i]).type, dtype);
    };
    if (!scalar(c.round, DType::kI64) || !scalar(c.limit, DType::kI64)) return false;
    return !c.condition ||
           (scalar(*c.condition, DType::kBool) && is_scalar(body.value(body.outputs[*c.condition]).type, DType::kBool));
  }
};

std::optional<Count> count_of(const Module& module, const Graph& g, const Node& loop) {
  const auto& a = static_cast<const WhileAttrs&>(*loop.attrs);
  const Counter in{g, loop, module.graphs[static_cast<size_t>(a.cond_graph)],
                   module.graphs[static_cast<size_t>(a.body_graph)]};
  const size_t n = loop.inputs.size();
  if (in.cond.outputs.empty() || in.body.inputs.size() != n || in.body.outputs.size() != n ||
      in.cond.inputs.size() != n)
    return std::nullopt;
  const Definitions test(in.cond);
  std::vector<std::optional<Count>> found;
  if (const auto passed = position(in.cond.inputs, test.source(in.cond.outputs[0], true))) {
    for (const Test& again : tests_of(in.inside, in.body.outputs[*passed]))
      for (const Test& first : tests_of(in.outside, loop.inputs[*passed]))
        found.push_back(in.by_variable(*passed, again, first));
  } else {
    for (const Test& t : tests_of(test, in.cond.outputs[0])) found.push_back(in.by_condition(t));
  }
  for (const auto& c : found)
    if (c && in.counts(*c)) return c;
  return std::nullopt;
}

/// True if a node or an output of the graph reads the value.
bool is_read(const Graph& g, ValueId id) {
  return std::ranges::count(g.outputs, id) > 0 ||
         std::ranges::any_of(g.nodes, [&](const Node& n) { return std::ranges::count(n.inputs, id) > 0; });
}

ValueId truth(Graph& g) {
  Tensor t(DType::kBool, Shape{});
  t.data<bool>()[0] = true;
  return g.add_value(constant_value(std::move(t)));
}

/// The While as a Loop; nullopt: it has no such form.
std::optional<Node> as_loop(Module& module, Graph& g, const Node& node) {
  const auto count = count_of(module, g, node);
  if (!count) return std::nullopt;
  const auto given = [&](size_t i) { return i < node.outputs.size() && node.outputs[i] != kNoValue; };
  const auto wanted = [&](size_t i) { return given(i) && is_read(g, node.outputs[i]); };
  // What the count replaces has no value behind the loop.
  if (wanted(count->round) || wanted(count->limit) || (count->condition && wanted(*count->condition)) ||
      (count->test && wanted(*count->test)))
    return std::nullopt;
  Graph body = module.graphs[static_cast<size_t>(static_cast<const WhileAttrs&>(*node.attrs).body_graph)];
  const std::vector<ValueId> in = body.inputs, out = body.outputs;
  body.inputs = {in[count->round]};
  if (count->condition) {
    body.inputs.push_back(in[*count->condition]);
    body.outputs = {out[*count->condition]};
  } else {
    body.inputs.push_back(body.add_value({.name = "condition", .type = ValueType::tensor(DType::kBool, Shape{})}));
    body.outputs = {truth(body)};
  }
  Node loop = node;
  loop.op = Op::kLoop;
  loop.inputs = {node.inputs[count->limit], count->condition ? node.inputs[*count->condition] : kNoValue};
  loop.outputs.clear();
  std::vector<size_t> captured;
  const Definitions inside(body);
  // A variable that nothing but its own next value reads is none of the loop's.
  const auto unread = [&](size_t i) {
    for (const Node& n : body.nodes)
      if (std::ranges::count(n.inputs, in[i]) > 0) return false;
    for (size_t k = 0; k < out.size(); ++k)
      if (k != i && out[k] == in[i]) return false;
    return true;
  };
  LoopAttrs a;
  for (size_t i = 0; i < in.size(); ++i) {
    if (i == count->round || i == count->condition || i == count->test || (!wanted(i) && unread(i))) continue;
    const bool kept = inside.source(out[i], false) == in[i];
    if (kept && !wanted(i)) {
      captured.push_back(i);
      continue;
    }
    ++a.carried;
    body.inputs.push_back(in[i]);
    body.outputs.push_back(out[i]);
    loop.inputs.push_back(node.inputs[i]);
    loop.outputs.push_back(given(i) ? node.outputs[i] : kNoValue);
  }
  remove_dead_nodes(body);
  for (const size_t i : captured) {
    if (!is_read(body, in[i])) continue;
    body.inputs.push_back(in[i]);
    loop.inputs.push_back(node.inputs[i]);
  }
  a.body_graph = static_cast<int>(module.graphs.size());
  loop.attrs = make_attrs<LoopAttrs>(a);
  module.graphs.push_back(std::move(body));
  return loop;
}

}  // namespace

void count_loops(Module& module) {
  for (size_t k = 0; k < module.graphs.size(); ++k) {
    Graph g = module.graphs[k];  // module.graphs grows
    bool changed = false;
    for (Node& n : g.nodes) {
      if (n.op != Op::kWhile) continue;
      auto loop = as_loop(module, g, n);
      if (!loop) continue;
      n = std::move(*loop);
      changed = true;
    }
    if (!changed) continue;
    remove_dead_nodes(g);
    module.graphs[k] = std::move(g);
  }
}

}  // namespace smelt::convert
