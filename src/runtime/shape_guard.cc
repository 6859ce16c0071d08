#include "runtime/shape_guard.h"

#include <algorithm>

#include "base/error.h"
#include "ops/core/node_infer.h"

namespace smelt {
namespace {

constexpr int64_t kMaxContent = 16;

/// The input whose content the shapes follow from where the rule needs it; -1: none.
int deciding_input(const Node& node) {
  return node.op == Op::kGroupQueryAttention && node.inputs.size() > 6 && node.inputs[6] != kNoValue ? 6 : -1;
}

class GuardInfer final : public NodeInfer {
 public:
  GuardInfer(const Module& module, const Graph& graph, const Node& node, std::span<const ValueType> inputs,
             std::span<const Datum> given, std::vector<ValueType>& out)
      : NodeInfer(module, graph, node, out), inputs_(inputs), given_(given) {}
  const ValueType& input(int i) const override { return inputs_[static_cast<size_t>(i)]; }
  const Tensor* constant(int i) const override {
    if (!has(i)) return nullptr;
    if (const Tensor* t = graph_.values[value_of(i)].constant.get()) return t;
    const auto at = std::ranges::find(graph_.inputs, static_cast<ValueId>(value_of(i)));
    const auto k = static_cast<size_t>(at - graph_.inputs.begin());
    if (k >= given_.size() || !given_[k].is_tensor()) return nullptr;
    const Tensor& t = given_[k].tensor;
    return t.identity() && is_integer(t.dtype()) && t.elements() <= kMaxContent ? &t : nullptr;
  }

 private:
  std::span<const ValueType> inputs_;
  std::span<const Datum> given_;
};

bool same(const ValueType& a, const ValueType& b) {
  return a.dtype == b.dtype && a.ranked == b.ranked && a.shape == b.shape;
}

}  // namespace

bool ShapeGuard::may_concern(const Node& node) { return deciding_input(node) >= 0; }

std::optional<ShapeGuard> ShapeGuard::of(const Module& module, const Graph& graph, const Node& node,
                                         std::vector<ValueType> inputs) {
  const int i = deciding_input(node);
  if (i < 0) return std::nullopt;
  const ValueId id = node.inputs[static_cast<size_t>(i)];
  if (std::ranges::find(graph.inputs, id) == graph.inputs.end()) return std::nullopt;
  return ShapeGuard(module, graph, node, std::move(inputs));
}

Status ShapeGuard::infer(std::span<const Datum> given, std::vector<ValueType>& types) const {
  types.assign(node_->outputs.size(), {});
  GuardInfer ctx(*module_, *graph_, *node_, inputs_, given, types);
  return op_info(node_->op).infer(ctx);
}

bool ShapeGuard::holds(std::span<const Datum> given) const {
  std::vector<ValueType> types;
  return infer(given, types).ok() && std::equal(types.begin(), types.end(), expected_.begin(), expected_.end(), same);
}

}  // namespace smelt
