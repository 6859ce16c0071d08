#include <algorithm>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

bool is_constant_pad(const Node& n) {
  return n.op == Op::kPad && static_cast<const PadAttrs&>(*n.attrs).mode == PadAttrs::Mode::kConstant;
}

/// True for nodes that move elements of input 0 alone, whatever its type is, and may add zeros.
bool moves_one_value(const Graph& g, const Node& n) {
  if (is_constant_pad(n)) {
    if (n.inputs.size() < 3 || n.inputs[2] == kNoValue) return true;
    const Tensor* value = g.value(n.inputs[2]).constant.get();
    return value && value->dtype() == DType::kF32 && value->elements() == 1 && get_double(*value, 0) == 0;
  }
  constexpr Op kOperators[] = {Op::kReshape, Op::kSqueeze, Op::kUnsqueeze,    Op::kFlatten,   Op::kTranspose, Op::kPad,
                               Op::kExpand,  Op::kSlice,   Op::kStridedSlice, Op::kSliceSize, Op::kSplit};
  return std::ranges::find(kOperators, n.op) != std::end(kOperators);
}

/// True if integers of the type stand for 0 as well.
bool has_zero(const ValueType& t) {
  const int64_t zero = t.quant->zero_point();
  return zero >= int_min(t.dtype) && zero <= int_max(t.dtype);
}

class DequantizeSinker {
 public:
  explicit DequantizeSinker(Graph& g) : g_(g), rounded_(g.values.size(), 0), integers_(g.values.size(), kNoValue) {}

  void run() {
    find_rounded();
    bool any = false;
    for (const Node& n : g_.nodes) any = any || dequantizes_for_movement(n);
    if (!any) return;
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node& n : nodes) {
      if (n.op == Op::kDequantize && is_f32(n.outputs[0]) && is_per_tensor(g_.value(n.inputs[0]).type.quant))
        integers_[static_cast<size_t>(n.outputs[0])] = n.inputs[0];
      else if (moves_one_value(g_, n) && integers(n.inputs[0]) != kNoValue && is_rounded(n) &&
               (!is_constant_pad(n) || has_zero(g_.value(integers(n.inputs[0])).type)))
        move(n);
      g_.nodes.push_back(std::move(n));
      for (Node& d : behind_) g_.nodes.push_back(std::move(d));
      behind_.clear();
    }
    remove_dead_nodes(g_);
  }

 private:
  bool is_f32(ValueId id) const { return is_unquantized_f32(g_.value(id).type); }
  /// Marks the values that only Quantizes read, or nodes that move elements to such values.
  void find_rounded() {
    std::vector<char> others(g_.values.size(), 0), any(g_.values.size(), 0);
    for (const ValueId id : g_.outputs)
      if (id != kNoValue) others[static_cast<size_t>(id)] = 1;
    for (size_t k = g_.nodes.size(); k-- > 0;) {
      const Node& n = g_.nodes[k];
      for (const ValueId id : n.outputs)
        if (id != kNoValue)
          rounded_[static_cast<size_t>(id)] = any[static_cast<size_t>(id)] && !others[static_cast<size_t>(id)];
      const bool rounds = n.op == Op::kQuantize || (moves_one_value(g_, n) && is_rounded(n));
      for (size_t i = 0; i < n.inputs.size(); ++i)
        if (n.inputs[i] != kNoValue) (i == 0 && rounds ? any : others)[static_cast<size_t>(n.inputs[i])] = 1;
    }
  }
  bool is_rounded(const Node& n) const {
    return std::ranges::all_of(n.outputs,
                               [&](ValueId id) { return id != kNoValue && rounded_[static_cast<size_t>(id)]; });
  }
  bool dequantizes_for_movement(const Node& n) const {
    return n.op == Op::kDequantize && n.outputs[0] != kNoValue && rounded_[static_cast<size_t>(n.outputs[0])];
  }
  ValueId integers(ValueId id) const {
    return id == kNoValue || static_cast<size_t>(id) >= integers_.size() ? kNoValue
                                                                         : integers_[static_cast<size_t>(id)];
  }
  /// Makes a node move integers, with a Dequantize of each output behind it.
  void move(Node& n) {
    const ValueId x = integers(n.inputs[0]);
    n.inputs[0] = x;
    if (is_constant_pad(n)) {
      const ValueType& t = g_.value(x).type;
      Tensor zero(t.dtype, Shape{});
      set_int(zero, 0, t.quant->zero_point());
      n.inputs.resize(std::max<size_t>(n.inputs.size(), 3), kNoValue);
      n.inputs[2] = g_.add_value(constant_value(std::move(zero)));
    }
    for (ValueId& id : n.outputs) {
      Value v = g_.form_of(id);
      v.type.dtype = g_.value(x).type.dtype;
      v.type.quant = g_.value(x).type.quant;
      const ValueId made = g_.add_value(std::move(v));
      Node d;
      d.op = Op::kDequantize;
      d.attrs = make_attrs<NoAttrs>();
      d.inputs = {made};
      d.outputs = {id};
      d.name = n.name;
      d.origin = n.origin;
      integers_[static_cast<size_t>(id)] = made;
      behind_.push_back(std::move(d));
      id = made;
    }
  }

  Graph& g_;
  std::vector<char> rounded_;      ///< by value: see find_rounded()
  std::vector<ValueId> integers_;  ///< by value of the graph as it was: what a Dequantize makes it from
  std::vector<Node> behind_;       ///< Dequantizes to stand behind the node that is moved
};

}  // namespace

void sink_dequantize(Graph& graph) { DequantizeSinker(graph).run(); }

}  // namespace smelt
