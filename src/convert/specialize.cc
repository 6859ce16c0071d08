// Graphs for fixed shapes: shape arithmetic folded, branches and loops opened.
#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "convert/node_runner.h"
#include "ops/control/control.h"
#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "ops/detection/detection.h"
#include "ops/detection/nms.h"
#include "ops/elementwise/elementwise.h"
#include "ops/gather/gather.h"
#include "ops/shape/shape.h"
#include "ops/sort/sort.h"
#include "tensor/numeric.h"

namespace smelt::convert {
namespace {

/// Nodes that an unrolled loop may have, depth of branches and loops, and nodes and values of all graphs that are
/// opened. What lies beyond stays as it is.
constexpr size_t kMostNodes = size_t{1} << 14;
constexpr int kMaxDepth = 48;
constexpr int64_t kMostOpened = int64_t{1} << 20;

/// The branches, calls and loops that become the nodes that they run. kNothing: shapes alone are followed.
enum class Opens { kAll, kNothing };

/// Rewrites one graph node by node. A value that turned out to be another one is replaced by it.
class Specializer {
 public:
  /// `left`: nodes and values that may still be opened, in common with all others of a module.
  Specializer(Module& module, int graph, const Evaluate& evaluate, Opens opens, int depth, int64_t& left,
              int64_t spare = -1)
      : module_(module),
        graph_(static_cast<size_t>(graph)),
        evaluate_(evaluate),
        opens_(opens),
        depth_(depth),
        left_(left),
        spare_(spare) {}

  Status run() {
    const std::vector<Node> nodes = std::move(graph().nodes);
    graph().nodes.clear();
    for (const Node& node : nodes) SMELT_TRY(add(node));
    // A graph's outputs keep their names.
    for (const ValueId id : std::vector<ValueId>(graph().outputs)) {
      if (!replaced_.contains(id)) continue;
      Node identity{.op = Op::kUnary, .inputs = {now(id)}, .outputs = {id}};
      identity.attrs = make_attrs<UnaryAttrs>(Unary::kIdentity, 0.0, 0.0);
      identity.name = graph().value(id).name;
      replaced_.erase(id);
      SMELT_TRY(keep(identity));
    }
    graph().nodes = std::move(out_);
    return Ok();
  }

 private:
  Graph& graph() { return module_.graphs[graph_]; }
  ValueId now(ValueId id) const {
    const auto it = replaced_.find(id);
    return it == replaced_.end() ? id : it->second;
  }
  const Tensor* constant(ValueId id) { return id == kNoValue ? nullptr : graph().value(id).constant.get(); }
  std::optional<int64_t> number(ValueId id) {
    const Tensor* t = constant(id);
    return t && t->elements() == 1 ? std::optional(get_int(*t, 0)) : std::nullopt;
  }
  void replace(ValueId id, ValueId by) {
    if (id != kNoValue) replaced_[id] = by;
  }
  ValueId scalar(DType dtype, int64_t value) {
    Tensor t(dtype, Shape{});
    set_int(t, 0, value);
    return graph().add_value(constant_value(std::move(t)));
  }

  /// What an attempt to open a loop changed, so that it can be taken back.
  struct Mark {
    size_t nodes, values;
    std::map<ValueId, ValueId> replaced;
  };
  Mark mark() { return {out_.size(), graph().values.size(), replaced_}; }
  void take_back(Mark m) {
    out_.resize(m.nodes);
    graph().values.resize(m.values);
    replaced_ = std::move(m.replaced);
  }

  Status add(Node node) {
    for (ValueId& id : node.inputs) id = now(id);
    if (opens_ == Opens::kNothing || depth_ >= kMaxDepth || left_ <= 0) return keep(node);
    switch (node.op) {
      case Op::kIf:
        return branch(node);
      case Op::kCall:
        return call(node);
      case Op::kWhile:
        return attempt(node, &Specializer::unroll_while);
      case Op::kLoop:
        return attempt(node, &Specializer::unroll_loop);
      case Op::kScan:
        return attempt(node, &Specializer::unroll_scan);
      default:
        return keep(node);
    }
  }

  /// Adds a node as it is; what it gives becomes constant if that is known.
  Status keep(const Node& node) {
    std::vector<ValueType> types;
    if (auto s = infer_node(module_, graph(), node, types); !s.ok())
      return s.error().within(Cat(node.where, " ", node.origin));
    if (spare_ >= 0) bound(node, types[0]);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == kNoValue) continue;
      if (opens_ == Opens::kNothing) keep_declared(graph().value(node.outputs[i]).type, types[i]);
      if (auto s = merge_type(graph().value(node.outputs[i]).type, types[i], Cat("output ", i)); !s.ok())
        return s.error().within(Cat(node.where, " ", node.origin));
    }
    if (!shape_contents(node) && !fold_node(graph(), node, evaluate_)) out_.push_back(node);
    return Ok();
  }

  /// Sizes that the file declares stay where they do not follow from those of the operands.
  static void keep_declared(const ValueType& declared, ValueType& inferred) {
    if (!declared.ranked || !inferred.ranked || declared.shape.rank() != inferred.shape.rank()) return;
    for (int d = 0; d < inferred.shape.rank(); ++d)
      if (inferred.shape[d] < 0) inferred.shape[d] = declared.shape[d];
  }

  /// Sets the number of results that a run decides to the most there can be, and spare_ more.
  void bound(const Node& node, ValueType& type) {
    const ValueType& x = graph().value(node.inputs[0]).type;
    if (type.is_static() || !type.ranked || !x.is_static()) return;
    const int64_t all = x.shape.elements();
    if (node.op == Op::kNonZero) {
      type.shape[static_cast<const NonZeroAttrs&>(*node.attrs).rows ? 0 : 1] = all + spare_;
    } else if (node.op == Op::kCompress) {
      const int64_t axis = static_cast<const AxisAttrs&>(*node.attrs).axis;
      const int d = axis == INT64_MIN ? 0 : static_cast<int>(axis < 0 ? axis + x.shape.rank() : axis);
      type.shape[d] = (axis == INT64_MIN ? all : x.shape[d]) + spare_;
    } else if (node.op == Op::kNonMaxSuppression) {
      const ValueType& scores = graph().value(node.inputs[1]).type;
      if (static_cast<const NmsAttrs&>(*node.attrs).form != NmsAttrs::Form::kOnnx || !scores.is_static()) return;
      const auto most = node.inputs.size() > 2 ? number(node.inputs[2]) : std::nullopt;
      type.shape[0] = most_selected(scores.shape, most) + spare_;
    }
  }

  /// Makes the result of an operator that only reads a static shape constant.
  bool shape_contents(const Node& node) {
    if (node.op != Op::kShapeOf && node.op != Op::kSizeOf && node.op != Op::kRankOf) return false;
    const ValueType& x = graph().value(node.inputs[0]).type;
    if (node.op == Op::kRankOf ? !x.ranked : !x.is_static()) return false;
    std::vector<int64_t> contents;
    if (node.op == Op::kRankOf) {
      contents = {x.shape.rank()};
    } else if (node.op == Op::kSizeOf) {
      contents = {x.shape.elements()};
    } else {
      const auto& a = static_cast<const ShapeOfAttrs&>(*node.attrs);
      const int64_t rank = x.shape.rank();
      const auto bound = [&](int64_t v, int64_t least) { return std::clamp(v < 0 ? v + rank : v, least, rank); };
      const int64_t begin = bound(a.start, 0), end = bound(a.end, begin);
      contents.assign(x.shape.begin() + begin, x.shape.begin() + end);
    }
    Value& y = graph().value(node.outputs[0]);
    Tensor t(y.type.dtype, y.type.shape);
    if (t.elements() != static_cast<int64_t>(contents.size())) return false;
    for (size_t i = 0; i < contents.size(); ++i) set_int(t, static_cast<int64_t>(i), contents[i]);
    y.constant = std::make_shared<const Tensor>(std::move(t));
    return true;
  }

  void count(const Graph& opened) { left_ -= 1 + static_cast<int64_t>(opened.nodes.size() + opened.values.size()); }

  /// Adds the nodes of another graph. Returns what its outputs are here.
  Result<std::vector<ValueId>> open(int index, std::span<const ValueId> arguments) {
    const Graph body = module_.graphs[static_cast<size_t>(index)];
    count(body);
    std::map<ValueId, ValueId> here{{kNoValue, kNoValue}};
    for (size_t i = 0; i < body.inputs.size(); ++i)
      here[body.inputs[i]] = i < arguments.size() ? arguments[i] : kNoValue;
    const auto map = [&](ValueId id) {
      const auto [it, added] = here.try_emplace(id, kNoValue);
      if (added) it->second = graph().add_value(body.value(id));
      return it->second;
    };
    ++depth_;
    for (Node node : body.nodes) {
      for (auto* list : {&node.inputs, &node.outputs})
        for (ValueId& id : *list) id = map(id);
      SMELT_TRY(add(std::move(node)));
    }
    --depth_;
    std::vector<ValueId> outputs;
    for (const ValueId id : body.outputs) outputs.push_back(now(map(id)));
    return outputs;
  }

  Status call(const Node& node) {
    SMELT_ASSIGN(const auto outputs, open(static_cast<const CallAttrs&>(*node.attrs).graph, node.inputs));
    for (size_t i = 0; i < node.outputs.size(); ++i) replace(node.outputs[i], outputs[i]);
    return Ok();
  }

  /// The chosen branch in place; else both for the types that go into them.
  Status branch(Node node) {
    auto a = static_cast<const IfAttrs&>(*node.attrs);
    const auto arguments = std::span(node.inputs).subspan(1);
    if (const auto condition = number(node.inputs[0])) {
      SMELT_ASSIGN(const auto outputs, open(*condition ? a.then_graph : a.else_graph, arguments));
      for (size_t i = 0; i < node.outputs.size(); ++i) replace(node.outputs[i], outputs[i]);
      return Ok();
    }
    for (int* index : {&a.then_graph, &a.else_graph}) {
      Graph body = module_.graphs[static_cast<size_t>(*index)];
      count(body);
      for (size_t i = 0; i < body.inputs.size() && i < arguments.size(); ++i) {
        if (arguments[i] == kNoValue || body.inputs[i] == kNoValue) continue;
        const Value& from = graph().value(arguments[i]);
        body.value(body.inputs[i]).type = from.type;
      }
      *index = static_cast<int>(module_.graphs.size());
      module_.graphs.push_back(std::move(body));
      SMELT_TRY(Specializer(module_, *index, evaluate_, opens_, depth_ + 1, left_).run());
    }
    node.attrs = make_attrs<IfAttrs>(a);
    return keep(node);
  }

  /// Opens a loop, or keeps it if its end is not known or far away.
  Status attempt(const Node& node, Result<bool> (Specializer::*unroll)(const Node&)) {
    Mark before = mark();
    const int depth = depth_;
    const auto opened = (this->*unroll)(node);
    if (opened.ok() && *opened) return Ok();
    depth_ = depth;
    take_back(std::move(before));
    return keep(with_typed_bodies(node));
  }

  /// The loop with bodies of the types that go into them; as it is where those change from round to round.
  Node with_typed_bodies(Node node) {
    const size_t graphs = module_.graphs.size();
    const auto typed = [&](int& index, std::span<const ValueId> arguments, size_t first) {
      Graph body = module_.graphs[static_cast<size_t>(index)];
      count(body);
      for (size_t i = 0; i < arguments.size() && first + i < body.inputs.size(); ++i)
        if (arguments[i] != kNoValue) body.value(body.inputs[first + i]).type = graph().value(arguments[i]).type;
      index = static_cast<int>(module_.graphs.size());
      module_.graphs.push_back(std::move(body));
      return Specializer(module_, index, evaluate_, opens_, depth_ + 1, left_).run().ok();
    };
    const auto keeps_types = [&](int index, size_t inputs, size_t outputs, size_t n) {
      const Graph& body = module_.graphs[static_cast<size_t>(index)];
      for (size_t i = 0; i < n; ++i) {
        const ValueType &in = body.value(body.inputs[inputs + i]).type,
                        &out = body.value(body.outputs[outputs + i]).type;
        if (!in.is_static() || !out.is_static() || in.dtype != out.dtype || !(in.shape == out.shape)) return false;
      }
      return true;
    };
    const std::span<const ValueId> all(node.inputs);
    if (node.op == Op::kWhile) {
      auto a = static_cast<const WhileAttrs&>(*node.attrs);
      if (typed(a.cond_graph, all, 0) && typed(a.body_graph, all, 0) && keeps_types(a.body_graph, 0, 0, all.size())) {
        node.attrs = make_attrs<WhileAttrs>(a);
        return node;
      }
    } else if (node.op == Op::kLoop) {
      auto a = static_cast<const LoopAttrs&>(*node.attrs);
      if (typed(a.body_graph, all.subspan(2), 2) && keeps_types(a.body_graph, 2, 1, static_cast<size_t>(a.carried))) {
        node.attrs = make_attrs<LoopAttrs>(a);
        return node;
      }
    }
    module_.graphs.resize(graphs);
    return node;
  }

  Result<bool> unroll_while(const Node& node) {
    const auto& a = static_cast<const WhileAttrs&>(*node.attrs);
    std::vector<ValueId> values = node.inputs;
    for (const size_t begin = out_.size(); out_.size() - begin < kMostNodes && left_ > 0;) {
      SMELT_ASSIGN(const auto test, open(a.cond_graph, values));
      const auto more = number(test[0]);
      if (!more) return false;
      if (!*more) {
        for (size_t i = 0; i < node.outputs.size(); ++i) replace(node.outputs[i], values[i]);
        return true;
      }
      SMELT_ASSIGN(values, open(a.body_graph, values));
    }
    return false;
  }

  /// A stack of what the iterations of a loop gave, along a new dimension.
  Status stack(const Node& node, size_t output, std::vector<ValueId> parts, int64_t axis) {
    if (node.outputs[output] == kNoValue) return Ok();
    Node all{.op = Op::kStack, .inputs = std::move(parts), .outputs = {node.outputs[output]}};
    all.attrs = make_attrs<AxisAttrs>(axis);
    all.name = node.name;
    all.where = node.where;
    return keep(all);
  }

  Result<bool> unroll_loop(const Node& node) {
    const auto& a = static_cast<const LoopAttrs&>(*node.attrs);
    const auto carried = static_cast<size_t>(a.carried);
    const auto trips = node.inputs[0] == kNoValue ? std::optional(INT64_MAX) : number(node.inputs[0]);
    if (!trips) return false;
    ValueId condition = node.inputs[1];
    std::vector<ValueId> values(node.inputs.begin() + 2, node.inputs.end());
    std::vector<std::vector<ValueId>> scans(node.outputs.size() - carried);
    const size_t begin = out_.size();
    for (int64_t i = 0; i < *trips; ++i) {
      const auto more = condition == kNoValue ? std::optional<int64_t>(1) : number(condition);
      if (!more || out_.size() - begin >= kMostNodes || left_ <= 0) return false;
      if (!*more) break;
      std::vector<ValueId> arguments{scalar(DType::kI64, i), condition};
      if (condition == kNoValue) arguments[1] = scalar(DType::kBool, 1);
      arguments.insert(arguments.end(), values.begin(), values.end());
      SMELT_ASSIGN(const auto given, open(a.body_graph, arguments));
      condition = given[0];
      std::copy_n(given.begin() + 1, carried, values.begin());
      for (size_t k = 0; k < scans.size(); ++k) scans[k].push_back(given[1 + carried + k]);
    }
    for (size_t k = 0; k < carried; ++k) replace(node.outputs[k], values[k]);
    for (size_t k = 0; k < scans.size(); ++k) {
      if (scans[k].empty()) return false;
      SMELT_TRY(stack(node, carried + k, std::move(scans[k]), 0));
    }
    return true;
  }

  Result<bool> unroll_scan(const Node& node) {
    const auto& a = static_cast<const ScanAttrs&>(*node.attrs);
    const auto states = static_cast<size_t>(a.states), scans = static_cast<size_t>(a.scans);
    if (a.batched || scans == 0) return false;
    const auto entry = [](const std::vector<int64_t>& list, size_t i) { return i < list.size() ? list[i] : 0; };
    const auto axis = [&](size_t k) {
      const int64_t given = entry(a.input_axes, k);
      return given < 0 ? given + graph().value(node.inputs[states + k]).type.shape.rank() : given;
    };
    const ValueType first = graph().value(node.inputs[states]).type;
    if (!first.is_static()) return false;
    const int64_t steps = first.shape[static_cast<int>(axis(0))];
    std::vector<ValueId> values(node.inputs.begin(), node.inputs.begin() + static_cast<int64_t>(states));
    std::vector<std::vector<ValueId>> results(node.outputs.size() - states);
    const size_t begin = out_.size();
    for (int64_t t = 0; t < steps; ++t) {
      if (out_.size() - begin >= kMostNodes || left_ <= 0) return false;
      std::vector<ValueId> arguments = values;
      for (size_t k = 0; k < scans; ++k) {
        GatherAttrs slice;
        slice.axis = axis(k);
        const int64_t at = entry(a.input_directions, k) ? steps - 1 - t : t;
        const DType dtype = graph().value(node.inputs[states + k]).type.dtype;
        Node take{.op = Op::kGather, .inputs = {node.inputs[states + k], scalar(DType::kI64, at)}};
        take.outputs = {graph().add_value({.type = ValueType::tensor(dtype)})};
        take.attrs = make_attrs<GatherAttrs>(slice);
        take.where = node.where;
        SMELT_TRY(keep(take));
        arguments.push_back(take.outputs[0]);
      }
      arguments.insert(arguments.end(), node.inputs.begin() + static_cast<int64_t>(states + scans), node.inputs.end());
      SMELT_ASSIGN(const auto given, open(a.body_graph, arguments));
      std::copy_n(given.begin(), states, values.begin());
      for (size_t k = 0; k < results.size(); ++k) results[k].push_back(given[states + k]);
    }
    for (size_t k = 0; k < states; ++k) replace(node.outputs[k], values[k]);
    for (size_t k = 0; k < results.size(); ++k) {
      if (results[k].empty()) return false;
      if (entry(a.output_directions, k)) std::ranges::reverse(results[k]);
      SMELT_TRY(stack(node, states + k, std::move(results[k]), entry(a.output_axes, k)));
    }
    return true;
  }

  Module& module_;
  size_t graph_;
  const Evaluate& evaluate_;
  Opens opens_;
  int depth_;
  int64_t& left_;
  int64_t spare_;
  std::vector<Node> out_;
  std::map<ValueId, ValueId> replaced_;
};

/// Specializes the graphs of the methods.
Status specialize_methods(Module& module, const Evaluate& evaluate, Opens opens, int64_t spare) {
  std::set<int> roots;
  for (const Method& m : module.methods) roots.insert(m.graph);
  int64_t left = kMostOpened;
  for (const int graph : roots) SMELT_TRY(Specializer(module, graph, evaluate, opens, 0, left, spare).run());
  return Ok();
}

}  // namespace

Status specialize(Module& module, const Evaluate& evaluate, int64_t spare) {
  return specialize_methods(module, evaluate, Opens::kAll, spare);
}

Status fold_shapes(Module& module, const Evaluate& evaluate) {
  SMELT_TRY(specialize_methods(module, evaluate, Opens::kNothing, -1));
  for (Graph& graph : module.graphs) remove_dead_nodes(graph);
  return Ok();
}

}  // namespace smelt::convert
