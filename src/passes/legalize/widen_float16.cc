// The types of a float16 graph as a processor without float16 arithmetic wants them: float32 from node to node, so that
// nothing is rounded or converted on the way.
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/pages.h"

namespace smelt {
namespace {

bool is_float16(const ValueType& t) {
  return t.kind == ValueType::Kind::kTensor && (t.dtype == DType::kF16 || t.dtype == DType::kBF16) && !t.quant;
}

/// Moves elements of input 0 whatever their type is: what is float32 before it may be float32 behind it.
bool moves_any_type(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kSqueeze:
    case Op::kUnsqueeze:
    case Op::kFlatten:
    case Op::kTranspose:
    case Op::kExpand:
    case Op::kTile:
    case Op::kSlice:
    case Op::kStridedSlice:
    case Op::kSliceSize:
    case Op::kConcat:
    case Op::kStack:
    case Op::kUnstack:
    case Op::kSplit:
    case Op::kPad:
    case Op::kDepthSpace:
    case Op::kSpaceToBatch:
    case Op::kBatchToSpace:
    case Op::kReverse:
    case Op::kWhere:
      return true;
    default:
      return false;
  }
}

class Widener {
 public:
  explicit Widener(Graph& g) : g_(g), wide_(g.values.size(), kNoValue) {}

  std::vector<ValueId> run() {
    std::vector<Node> nodes = std::move(g_.nodes);
    g_.nodes.clear();
    for (Node& n : nodes) {
      if (casts_constant(n)) continue;
      if (computes_float32(n))
        widen(n);
      else
        for (const ValueId id : n.inputs) need_narrow(id);
      g_.nodes.push_back(std::move(n));
    }
    for (const ValueId id : g_.outputs) need_narrow(id);
    return std::move(made_);
  }

 private:
  bool narrow(ValueId id) const { return id != kNoValue && is_float16(g_.value(id).type); }
  ValueId wide(ValueId id) const {
    return id != kNoValue && static_cast<size_t>(id) < wide_.size() ? wide_[static_cast<size_t>(id)] : kNoValue;
  }

  bool computes_float32(const Node& n) const {
    const uint32_t flags = op_info(n.op).flags;
    if (flags & (kEffect | kDynamic | kControl | kContainer)) return false;
    bool any = false, from_wide = false;
    for (const ValueId id : n.inputs) {
      any = any || narrow(id);
      from_wide = from_wide || wide(id) != kNoValue;
    }
    if (!any) return false;
    return moves_any_type(n.op) ? from_wide : (flags & kWidensToFloat) != 0;
  }

  /// Takes a node that casts a float32 constant for the float16 value of its result. False for another node.
  bool casts_constant(const Node& n) {
    if (n.op != Op::kCast || n.inputs[0] == kNoValue || !narrow(n.outputs[0])) return false;
    const auto constant = g_.value(n.inputs[0]).constant;
    if (!constant || constant->dtype() != DType::kF32 || constant->quant() || is_input(n.inputs[0])) return false;
    const ValueId made = add_wide(n.outputs[0]);
    g_.value(made).constant = constant;
    wide_[static_cast<size_t>(n.outputs[0])] = pending_[n.outputs[0]] = made;
    return true;
  }
  bool is_input(ValueId id) const { return std::ranges::find(g_.inputs, id) != g_.inputs.end(); }

  /// Gives the node float32 operands and results.
  void widen(Node& n) {
    for (ValueId& id : n.inputs)
      if (narrow(id)) id = wide_form(id);
    for (ValueId& id : n.outputs) {
      if (!narrow(id)) continue;
      id = wide_[static_cast<size_t>(id)] = pending_[id] = add_wide(id);
    }
  }
  ValueId add_wide(ValueId of) {
    Value v = g_.form_of(of);
    v.type.dtype = DType::kF32;
    const ValueId made = g_.add_value(std::move(v));
    if (g_.value(of).type.dtype == DType::kF16) made_.push_back(made);
    return made;
  }
  ValueId wide_form(ValueId id) {
    ValueId& made = wide_[static_cast<size_t>(id)];
    if (made != kNoValue) return made;
    made = add_wide(id);
    if (const auto& constant = g_.value(id).constant) {
      g_.value(made).constant = std::make_shared<const Tensor>(as_float32(*constant));
    } else {
      append_cast(g_, id, made, "widen");
    }
    return made;
  }
  /// Makes the form of a value that the file names, where only the float32 one was made so far.
  void need_narrow(ValueId id) {
    const auto it = pending_.find(id);
    if (it == pending_.end()) return;
    append_cast(g_, it->second, id, "widen");
    pending_.erase(it);
  }

  Graph& g_;
  std::vector<ValueId> made_;  ///< float32 forms of float16 values
  std::vector<ValueId> wide_;  ///< float32 form of a value of the graph as it was; kNoValue: none yet
  std::unordered_map<ValueId, ValueId> pending_;  ///< float32 forms of values that no node gives as the file names them
};

}  // namespace

void append_cast(Graph& graph, ValueId from, ValueId to, const char* origin) {
  Node n;
  n.op = Op::kCast;
  n.inputs = {from};
  n.outputs = {to};
  n.attrs = make_attrs<CastAttrs>(graph.value(to).type.dtype);
  n.name = graph.value(to).name;
  n.origin = origin;
  graph.nodes.push_back(std::move(n));
}

std::vector<ValueId> widen_float16(Graph& graph) {
  if (std::ranges::none_of(graph.values, [](const Value& v) { return is_float16(v.type); })) return {};
  return Widener(graph).run();
}

}  // namespace smelt
