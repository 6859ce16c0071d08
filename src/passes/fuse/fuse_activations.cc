#include <cmath>
#include <limits>

#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/quant_params.h"

namespace smelt {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

/// The clamping activation that a node computes, if it is one.
bool as_activation(const Graph& g, const Node& n, Activation& act) {
  if (n.op == Op::kUnary) {
    const auto& a = static_cast<const UnaryAttrs&>(*n.attrs);
    switch (a.fn) {
      case Unary::kRelu:
        act = {ActKind::kRelu};
        return true;
      case Unary::kRelu6:
        act = {ActKind::kRelu6};
        return true;
      case Unary::kReluN1:
        act = {ActKind::kReluN1};
        return true;
      case Unary::kClamp:
        act = {ActKind::kClamp, static_cast<float>(a.a), static_cast<float>(a.b)};
        return true;
      default:
        return false;
    }
  }
  const ValueType& x = g.value(n.inputs[0]).type;
  if (n.op != Op::kClamp || !x.ranked) return false;
  act = {ActKind::kClamp, -kInf, kInf};
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNoValue) continue;
    const Tensor* t = g.value(n.inputs[i]).constant.get();
    if (!t || t->dtype() != DType::kF32 || t->elements() != 1 || t->rank() > x.shape.rank()) return false;
    (i == 1 ? act.a : act.b) = t->data<float>()[0];
  }
  return act.a <= act.b;
}

/// True if an activation from x to y can be part of the operator that computes x.
bool can_fuse(const ValueType& x, const ValueType& y, const Activation& act) {
  if (x.quant) return is_integer(x.dtype) && x.dtype == y.dtype && same_per_tensor(x.quant, y.quant);
  // The bounds of kClamp may be no fp16 numbers: rounding before and after the clamp then differ.
  return x.dtype == DType::kF32 || ((x.dtype == DType::kF16 || x.dtype == DType::kBF16) && act.kind != ActKind::kClamp);
}

}  // namespace

void fuse_activations(Graph& graph) {
  fuse_into_producers(graph, [&](const Node& before, const Node& n) -> std::optional<Node> {
    if (n.outputs.empty() || n.outputs[0] == kNoValue) return std::nullopt;
    const ValueType& x = graph.value(n.inputs[0]).type;
    Activation act;
    if (!as_activation(graph, n, act) || !can_fuse(x, graph.value(n.outputs[0]).type, act)) return std::nullopt;
    const OpInfo& info = op_info(before.op);
    if (!(info.flags & kActivation)) return std::nullopt;
    AttrsPtr attrs = info.with_activation(*before.attrs, act, x.quant != nullptr);
    if (!attrs) return std::nullopt;
    Node fused = before;
    fused.attrs = std::move(attrs);
    return fused;
  });
}

}  // namespace smelt
