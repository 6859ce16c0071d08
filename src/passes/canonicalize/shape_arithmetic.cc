#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/infer.h"
#include "ops/core/op.h"
#include "ops/shape/shape.h"
#include "passes/canonicalize/extents.h"
#include "passes/passes.h"
#include "tensor/numeric.h"

namespace smelt {
namespace {

class ShapeFolder {
 public:
  /// `changed`: by ValueId, the values of which more is known than before.
  ShapeFolder(Module& module, Graph& graph, const Evaluate& evaluate, std::vector<bool> changed)
      : module_(module),
        graph_(graph),
        evaluate_(evaluate),
        flow_(graph, module.exact_inputs),
        same_(changed.size(), kNoValue),
        changed_(std::move(changed)) {}

  void run() {
    for (Node& n : graph_.nodes) {
      for (ValueId& id : n.inputs)
        if (id != kNoValue && id < count() && same_[static_cast<size_t>(id)] != kNoValue)
          id = same_[static_cast<size_t>(id)];
      const bool constant = make_constant_target(n);
      const bool reads = std::ranges::any_of(
          n.inputs, [&](ValueId id) { return id != kNoValue && id < count() && changed_[static_cast<size_t>(id)]; });
      if (constant || reads) refine(n);
      flow_.add(n);
      if (fold_list(n) || (reads && fold_node(graph_, n, evaluate_))) {
        mark(n);
        folded_ = true;
      } else {
        merge_list(n);
      }
    }
    if (folded_)
      std::erase_if(graph_.nodes, [&](const Node& n) {
        return !n.outputs.empty() && !(op_info(n.op).flags & (kEffect | kControl)) &&
               std::ranges::all_of(n.outputs, [&](ValueId id) { return id == kNoValue || graph_.value(id).constant; });
      });
    remove_dead_nodes(graph_);
  }

 private:
  ValueId count() const { return static_cast<ValueId>(changed_.size()); }
  void mark(const Node& n) {
    for (const ValueId id : n.outputs)
      if (id != kNoValue) changed_[static_cast<size_t>(id)] = true;
  }

  /// Lets nodes behind this one read, for a list put together from dimensions, an equal list before it.
  void merge_list(const Node& n) {
    const ValueId id = n.outputs.size() == 1 ? n.outputs[0] : kNoValue;
    if (id == kNoValue || !flow_.equal_lists(id, id)) return;
    const auto same = std::ranges::find_if(lists_, [&](ValueId other) { return flow_.equal_lists(id, other); });
    if (same != lists_.end())
      same_[static_cast<size_t>(id)] = *same;
    else
      lists_.push_back(id);
  }

  /// Gives a Reshape a constant target if each entry of its list is a number or the dimension of x in its place. One
  /// entry may be another: the number of elements tells it.
  bool make_constant_target(Node& n) {
    if (n.op != Op::kReshape || n.inputs.size() != 2 || graph_.value(n.inputs[1]).constant) return false;
    const auto target = flow_.list(n.inputs[1]);
    if (!target || !graph_.value(n.inputs[0]).type.ranked) return false;
    const bool allow_zero = static_cast<const ReshapeAttrs&>(*n.attrs).allow_zero;
    const Extents x = flow_.dims(n.inputs[0]);
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < target->size(); ++i) {
      const Extent& e = (*target)[i];
      if (e.is_literal() && allow_zero && e.number == 0) return false;
      numbers.push_back(e.is_literal() ? e.number : i < x.size() && x[i] == e ? 0 : -1);
    }
    if (std::ranges::count(numbers, -1) > 1) return false;
    n.inputs[1] = graph_.add_value(constant_integers(numbers));
    ReshapeAttrs attrs;
    attrs.allow_zero = false;
    n.attrs = make_attrs<ReshapeAttrs>(attrs);
    return true;
  }

  /// Makes a list of numbers that follow from dimensions a constant.
  bool fold_list(const Node& n) {
    if (n.outputs.size() != 1 || n.outputs[0] == kNoValue) return false;
    Value& y = graph_.value(n.outputs[0]);
    const auto list = y.constant ? std::nullopt : flow_.list(n.outputs[0]);
    if (!list || !std::ranges::all_of(*list, &Extent::is_literal)) return false;
    const auto size = static_cast<int64_t>(list->size());
    if (y.type.shape.rank() == 0 && size != 1) return false;
    std::vector<int64_t> numbers;
    for (const Extent& e : *list) numbers.push_back(e.number);
    const Shape shape = y.type.shape.rank() == 0 ? Shape{} : Shape{size};
    y.constant = tensor(y.type.dtype, shape, numbers);
    y.type.shape = shape;
    return true;
  }

  static std::shared_ptr<const Tensor> tensor(DType dtype, const Shape& shape, const std::vector<int64_t>& numbers) {
    Tensor t(dtype, shape);
    for (size_t i = 0; i < numbers.size(); ++i) set_int(t, static_cast<int64_t>(i), numbers[i]);
    return std::make_shared<const Tensor>(std::move(t));
  }

  /// Fills in what the shape rule of a node tells now beyond the types of its outputs.
  void refine(const Node& n) {
    std::vector<ValueType> types;
    if (!infer_node(module_, graph_, n, types).ok()) return;
    for (size_t i = 0; i < n.outputs.size() && i < types.size(); ++i) {
      if (n.outputs[i] == kNoValue) continue;
      ValueType& now = graph_.value(n.outputs[i]).type;
      ValueType merged = now;
      if (types[i].kind != ValueType::Kind::kTensor || !merge_type(merged, types[i], "output").ok()) continue;
      if (merged.ranked == now.ranked && merged.shape == now.shape) continue;
      now = std::move(merged);
      changed_[static_cast<size_t>(n.outputs[i])] = true;
    }
  }

  Module& module_;
  Graph& graph_;
  const Evaluate& evaluate_;
  ExtentFlow flow_;
  std::vector<ValueId> lists_;  ///< the first value of each
  std::vector<ValueId> same_;   ///< by ValueId, the equal list before; kNoValue: there is none
  std::vector<bool> changed_;   ///< by ValueId: more is known of a value than before
  bool folded_ = false;
};

}  // namespace

void fold_shape_arithmetic(Module& module, Graph& graph, const Evaluate& evaluate,
                           const std::vector<ValueId>& constants) {
  std::vector<bool> told(graph.values.size(), false);
  for (const ValueId id : constants) told[static_cast<size_t>(id)] = true;
  const auto is_told = [&](ValueId id) { return id != kNoValue && told[static_cast<size_t>(id)]; };
  const auto is_open = [&](ValueId id) { return id != kNoValue && !graph.value(id).type.is_static(); };
  const bool applies = std::ranges::any_of(graph.nodes, [&](const Node& n) {
    return n.op == Op::kShapeOf || (std::ranges::any_of(n.inputs, is_told) && std::ranges::any_of(n.outputs, is_open));
  });
  if (applies) ShapeFolder(module, graph, evaluate, std::move(told)).run();
}

}  // namespace smelt
