#include <cmath>
#include <limits>

#include "ops/conv/conv.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "ops/matmul/matmul.h"
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
  if (n.op != Op::kClamp) return false;
  act = {ActKind::kClamp, -kInf, kInf};
  for (size_t i = 1; i < n.inputs.size(); ++i) {
    if (n.inputs[i] == kNoValue) continue;
    const Tensor* t = g.value(n.inputs[i]).constant.get();
    if (!t || t->dtype() != DType::kF32 || t->elements() != 1) return false;
    (i == 1 ? act.a : act.b) = t->data<float>()[0];
  }
  return act.a <= act.b;
}

/// Whether an activation behind x can be part of the operator that makes x.
bool can_fuse(const ValueType& x, const ValueType& y, const Activation& act) {
  if (x.quant) return is_integer(x.dtype) && x.dtype == y.dtype && same_per_tensor(x.quant, y.quant);
  // Of half precision those whose bounds are numbers of it: to round before or behind them is the same.
  return x.dtype == DType::kF32 || ((x.dtype == DType::kF16 || x.dtype == DType::kBF16) && act.kind != ActKind::kClamp);
}

/// The same attributes with an activation; null when the operator takes none or has one already.
AttrsPtr with_activation(const Node& n, const Activation& act, bool quantized) {
  const auto add = [&](auto attrs) -> AttrsPtr {
    if (attrs.act.kind != ActKind::kNone) return nullptr;
    // Fixed-point kernels round the bounds in their own way.
    if (quantized && attrs.rounding != Rounding::kFloatHalfEven) return nullptr;
    attrs.act = act;
    return make_attrs<decltype(attrs)>(attrs);
  };
  switch (n.op) {
    case Op::kConv:
      return add(static_cast<const ConvAttrs&>(*n.attrs));
    case Op::kMatMul:
      return add(static_cast<const MatMulAttrs&>(*n.attrs));
    case Op::kBinary: {
      const auto& a = static_cast<const BinaryAttrs&>(*n.attrs);
      if (a.fn != Binary::kAdd && a.fn != Binary::kSub && a.fn != Binary::kMul && a.fn != Binary::kDiv) return nullptr;
      return add(a);
    }
    default:
      return nullptr;
  }
}

}  // namespace

void fuse_activations(Graph& graph) {
  fuse_into_producers(graph, [&](const Node& before, const Node& n) -> std::optional<Node> {
    if (n.outputs.empty() || n.outputs[0] == kNoValue) return std::nullopt;
    const ValueType& x = graph.value(n.inputs[0]).type;
    Activation act;
    if (!as_activation(graph, n, act) || !can_fuse(x, graph.value(n.outputs[0]).type, act)) return std::nullopt;
    AttrsPtr attrs = with_activation(before, act, x.quant != nullptr);
    if (!attrs) return std::nullopt;
    Node fused = before;
    fused.attrs = std::move(attrs);
    return fused;
  });
}

}  // namespace smelt
