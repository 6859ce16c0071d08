// Values that a Reshape brings to another shape only behind other nodes: computed in that shape from the start.
#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
#include "ops/reduce/reduce.h"
#include "ops/shape/shape.h"
#include "ops/softmax/softmax.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

/// True for [B * H, M, N], if the other is [B, H, M, N].
bool joins_batches(const Shape& wide, const Shape& flat) {
  return wide.rank() == 4 && flat.rank() == 3 && wide[0] * wide[1] == flat[0] && wide[2] == flat[1] &&
         wide[3] == flat[2];
}

bool is_f32(const Graph& g, ValueId id) {
  if (id == kNoValue) return false;
  const ValueType& t = g.value(id).type;
  return t.is_static() && is_unquantized_f32(t);
}

class ReshapeSinker {
 public:
  explicit ReshapeSinker(Graph& graph)
      : graph_(graph),
        maker_(graph.values.size(), -1),
        split_(graph.values.size(), 0),
        form_(graph.values.size(), kNoValue),
        same_(form_) {}
  void run() {
    steps_.reserve(graph_.nodes.size());
    for (Node& n : graph_.nodes) add(std::move(n));
    graph_.nodes.clear();
    choose();
    for (Step& s : steps_) {
      for (Node& n : s.formed) rename(n);
      rename(s.node);
      std::move(s.formed.begin(), s.formed.end(), std::back_inserter(graph_.nodes));
      if (s.kept) graph_.nodes.push_back(std::move(s.node));
    }
    remove_dead_nodes(graph_);
  }

 private:
  /// A node, and nodes whose last one computes its output in another form.
  struct Step {
    Node node;
    std::vector<Node> formed;
    bool kept = true;
  };

  const Shape& shape(ValueId id) const { return graph_.value(id).type.shape; }
  ValueId known(const std::vector<ValueId>& of, ValueId id) const {
    return id != kNoValue && static_cast<size_t>(id) < of.size() ? of[static_cast<size_t>(id)] : kNoValue;
  }
  /// The value in the form that its readers may want; kNoValue: it has one shape alone.
  ValueId form(ValueId id) const { return known(form_, id); }
  bool splits_batches(ValueId id) const { return form(id) != kNoValue && joins_batches(shape(form(id)), shape(id)); }

  void add(Node n) {
    for (ValueId& id : n.inputs)
      if (const ValueId same = known(same_, id); same != kNoValue) id = same;
    Step& step = steps_.emplace_back(Step{std::move(n), {}, true});
    const Node& node = step.node;
    if (node.outputs.size() != 1 || node.inputs.empty() || !is_f32(graph_, node.outputs[0])) return;
    if (node.op != Op::kWhere && !is_f32(graph_, node.inputs[0])) return;
    if (node.op == Op::kReshape) return reshape(step.node);
    if (node.op == Op::kBinary || node.op == Op::kWhere) broadcast(step.node);
    std::optional<Shape> to = formed(step);
    if (!to) return;
    const ValueId id = graph_.add_value({.name = "", .type = ValueType::tensor(DType::kF32, *to)});
    step.formed.back().outputs = {id};
    form_[static_cast<size_t>(node.outputs[0])] = id;
  }
  void reshape(Node& n) {
    const ValueId x = n.inputs[0], y = n.outputs[0], other = form(x);
    if (other != kNoValue && shape(other) == shape(y)) {
      same_[static_cast<size_t>(y)] = other;
      if (static_cast<size_t>(other) >= maker_.size()) named_.try_emplace(other, y);
    } else if (joins_batches(shape(x), shape(y))) {
      form_[static_cast<size_t>(y)] = x;
    } else if (other != kNoValue && split_[static_cast<size_t>(x)]) {
      n.inputs[0] = other;
    }
    maker_[static_cast<size_t>(y)] = static_cast<int>(steps_.size()) - 1;
  }
  /// Reads [1, H, M, N] in place of [H, M, N] where that is what the latter broadcasts to.
  void broadcast(Node& n) {
    for (ValueId& id : n.inputs)
      if (splits_batches(id) && shape(form(id))[0] == 1 && shape(n.outputs[0]).rank() == 4) id = form(id);
  }

  /// The shape of the output's other form, with the nodes that compute it but for the last one's output; nullopt: it
  /// has none.
  std::optional<Shape> formed(Step& step) {
    const Node& n = step.node;
    switch (n.op) {
      case Op::kReduce:
        return reduced(step);
      case Op::kMatMul:
        return multiplied(step);
      case Op::kTranspose:
      case Op::kSoftmax:
        return of_batches(step);
      case Op::kUnary:
      case Op::kBinary:
      case Op::kWhere:
        return elementwise(step);
      default:
        return std::nullopt;
    }
  }
  /// A reduction over the last dimension, and others of extent 1, that drops dimensions: the last one alone, kept.
  std::optional<Shape> reduced(Step& step) {
    const Node& n = step.node;
    const auto& a = static_cast<const ReduceAttrs&>(*n.attrs);
    const Tensor* axes = n.inputs.size() == 2 ? graph_.value(n.inputs[1]).constant.get() : nullptr;
    Shape to = shape(n.inputs[0]);
    if (a.keep_dims || a.accumulate != DType::kInvalid || !axes || axes->elements() == 0) return std::nullopt;
    bool last = false;
    for (int64_t i = 0; i < axes->elements(); ++i) {
      const int64_t at = get_int(*axes, i), axis = at < 0 ? at + to.rank() : at;
      if (axis < 0 || axis >= to.rank() || (axis != to.rank() - 1 && to[static_cast<int>(axis)] != 1))
        return std::nullopt;
      last = last || axis == to.rank() - 1;
    }
    if (!last) return std::nullopt;
    to[to.rank() - 1] = 1;
    Node& kept = step.formed.emplace_back(n);
    ReduceAttrs keeps = a;
    keeps.keep_dims = true;
    kept.attrs = make_attrs<ReduceAttrs>(keeps);
    kept.inputs[1] = graph_.add_value(constant_integers({-1}));
    return to;
  }
  /// A product [B * H, M, N] where one operand is known as [B, H, ...].
  std::optional<Shape> multiplied(Step& step) {
    const Node& n = step.node;
    const auto& a = static_cast<const MatMulAttrs&>(*n.attrs);
    if (n.inputs.size() != 2 || !is_f32(graph_, n.inputs[1]) || a.trans_batch_a || a.trans_batch_b || a.flatten_a ||
        a.row_block != 0 || a.dynamic_quant || shape(n.outputs[0]).rank() != 3)
      return std::nullopt;
    const Shape flat = shape(n.outputs[0]);
    const ValueId split = splits_batches(n.inputs[0]) ? n.inputs[0] : n.inputs[1];
    if (!splits_batches(split)) return std::nullopt;
    const Shape of_split = shape(form(split)), to{of_split[0], of_split[1], flat[1], flat[2]};
    for (const ValueId id : n.inputs)
      if (shape(id).rank() != 3 || shape(id)[0] != flat[0]) return std::nullopt;
    const auto is_split = [&](ValueId id) {
      return splits_batches(id) || (static_cast<size_t>(id) < maker_.size() && maker_[static_cast<size_t>(id)] >= 0);
    };
    split_[static_cast<size_t>(n.outputs[0])] = is_split(n.inputs[0]) && is_split(n.inputs[1]);
    Node product = n;
    product.origin = "Reshape+MatMul+Reshape";
    for (ValueId& id : product.inputs) id = batches(step, id, {to[0], to[1], shape(id)[1], shape(id)[2]});
    step.formed.push_back(std::move(product));
    return to;
  }
  /// An operand [B * H, M, N] as `wide`, [B, H, M, N].
  ValueId batches(Step& step, ValueId id, const Shape& wide) {
    if (form(id) != kNoValue && shape(form(id)) == wide) return form(id);
    const int by = static_cast<size_t>(id) < maker_.size() ? maker_[static_cast<size_t>(id)] : -1;
    const ValueId from = by >= 0 ? steps_[static_cast<size_t>(by)].node.inputs[0] : id;
    const ValueId to = graph_.add_value({.name = "", .type = ValueType::tensor(DType::kF32, wide)});
    step.formed.push_back(reshaped(step.node, from, to));
    return to;
  }
  /// Rows' softmax and the transposition of matrices, of [B, H, M, N].
  std::optional<Shape> of_batches(Step& step) {
    const Node& n = step.node;
    if (!splits_batches(n.inputs[0])) return std::nullopt;
    Shape to = shape(form(n.inputs[0]));
    AttrsPtr attrs;
    if (n.op == Op::kSoftmax) {
      SoftmaxAttrs a = static_cast<const SoftmaxAttrs&>(*n.attrs);
      if (n.inputs.size() != 1 || (a.axis != -1 && a.axis != 2)) return std::nullopt;
      a.axis = -1;
      attrs = make_attrs<SoftmaxAttrs>(a);
    } else {
      if (permutation_of(graph_, n) != std::vector<int64_t>{0, 2, 1}) return std::nullopt;
      attrs = make_attrs<TransposeAttrs>(std::vector<int64_t>{0, 1, 3, 2});
      to = {to[0], to[1], to[3], to[2]};
    }
    Node& same = step.formed.emplace_back(n);
    same.attrs = std::move(attrs);
    same.inputs = {form(n.inputs[0])};
    return to;
  }
  /// A function of values in the same form, and of what broadcasts alike to both forms.
  std::optional<Shape> elementwise(Step& step) {
    const Node& n = step.node;
    const auto formed = std::ranges::find_if(
        n.inputs, [&](ValueId id) { return form(id) != kNoValue && shape(id) == shape(n.outputs[0]); });
    if (formed == n.inputs.end()) return std::nullopt;
    const Shape to = shape(form(*formed));
    const bool batches = splits_batches(*formed);
    Node same = n;
    for (ValueId& id : same.inputs) {
      if (id == kNoValue || !graph_.value(id).type.is_static()) return std::nullopt;
      const Shape& s = shape(id);
      if (form(id) != kNoValue && s == shape(n.outputs[0]) && shape(form(id)) == to)
        id = form(id);
      else if (!(s.elements() == 1 && s.rank() <= to.rank()) &&
               !(batches && (s.rank() < 3 || (s.rank() == 3 && s[0] == 1))))
        return std::nullopt;
    }
    step.formed.push_back(std::move(same));
    return to;
  }

  /// Keeps of each step what is read: the other form alone, the node alone, or the node as a Reshape of the form.
  void choose() {
    std::vector<char> read(graph_.values.size(), 0);
    const auto mark = [&](const Node& n) {
      for (const ValueId id : n.inputs)
        if (id != kNoValue) read[static_cast<size_t>(id)] = 1;
    };
    for (const ValueId id : graph_.outputs)
      if (id != kNoValue) read[static_cast<size_t>(id)] = 1;
    for (size_t k = steps_.size(); k-- > 0;) {
      Step& s = steps_[k];
      if (!s.formed.empty() && !read[static_cast<size_t>(s.formed.back().outputs[0])]) s.formed.clear();
      if (!s.formed.empty()) {
        const ValueId y = s.node.outputs[0];
        s.kept = read[static_cast<size_t>(y)];
        if (s.kept) {
          s.node = reshaped(s.node, s.formed.back().outputs[0], y);
          read.resize(graph_.values.size(), 0);
        }
      } else if (s.node.op == Op::kReshape) {
        const ValueId y = s.node.outputs[0], same = known(same_, y);
        s.kept = read[static_cast<size_t>(y)];
        if (same != kNoValue) s.node.inputs[0] = same;
        if (const auto named = named_.find(same); s.kept && named != named_.end() && named->second == y) {
          read[static_cast<size_t>(same)] = 1;
          s.kept = false;
        }
      }
      for (const Node& n : s.formed) mark(n);
      if (s.kept) mark(s.node);
    }
  }
  void rename(Node& n) const {
    for (std::vector<ValueId>* ids : {&n.inputs, &n.outputs})
      for (ValueId& id : *ids)
        if (const auto named = named_.find(id); named != named_.end()) id = named->second;
  }
  /// The Reshape of `from` that gives `to`, in the place of a node.
  Node reshaped(const Node& n, ValueId from, ValueId to) {
    Node r = n;
    r.op = Op::kReshape;
    r.attrs = make_attrs<ReshapeAttrs>();
    const Shape s = shape(to);
    r.inputs = {from, graph_.add_value(constant_integers({s.begin(), s.end()}))};
    r.outputs = {to};
    return r;
  }

  Graph& graph_;
  std::vector<Step> steps_;
  std::vector<int> maker_;     ///< by value of the graph as it was: the step of the Reshape that makes it; -1: another
  std::vector<char> split_;    ///< by the same: 1 for a product that costs no Reshapes of its operands in another form
  std::vector<ValueId> form_;  ///< by the same: the value in another shape
  std::vector<ValueId> same_;  ///< by the same: a value that readers take in its place
  std::unordered_map<ValueId, ValueId> named_;  ///< of those that are new: the graph's own value that it becomes
};

/// True if a node may get another form without another one before it.
bool may_start(const Graph& g, const Node& n) {
  if ((n.op != Op::kReduce && n.op != Op::kMatMul) || !is_f32(g, n.outputs[0])) return false;
  if (n.op == Op::kReduce) return !static_cast<const ReduceAttrs&>(*n.attrs).keep_dims;
  return g.value(n.outputs[0]).type.shape.rank() == 3;
}

}  // namespace

void sink_reshapes(Graph& graph) {
  if (std::ranges::any_of(graph.nodes, [&](const Node& n) { return may_start(graph, n); })) ReshapeSinker(graph).run();
}

}  // namespace smelt
