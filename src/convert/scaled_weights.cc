// Factors of products with constant matrices, for formats whose products have none.
#include <memory>
#include <utility>

#include "convert/convert.h"
#include "ops/core/op.h"
#include "ops/matmul/matmul.h"

namespace smelt::convert {
namespace {

const Tensor* float_constant(const Graph& g, const Node& n, size_t i) {
  const Tensor* t = i < n.inputs.size() && n.inputs[i] != kNoValue ? g.value(n.inputs[i]).constant.get() : nullptr;
  return t && t->dtype() == DType::kF32 && !t->quant() && !g.value(n.inputs[i]).type.quant ? t : nullptr;
}

/// A constant times a factor.
ValueId scaled(Graph& g, ValueId id, double factor) {
  Value v = g.value(id);
  Tensor product(DType::kF32, v.constant->shape());
  const auto* from = v.constant->data<float>();
  for (int64_t i = 0; i < product.elements(); ++i)
    product.data<float>()[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
  v.constant = std::make_shared<const Tensor>(std::move(product));
  return g.add_value(std::move(v));
}

}  // namespace

void scale_weights(Module& module) {
  for (Graph& g : module.graphs)
    for (Node& n : g.nodes) {
      if (n.op != Op::kMatMul) continue;
      auto a = static_cast<const MatMulAttrs&>(*n.attrs);
      const bool weights = a.alpha != 1 && float_constant(g, n, 1) && !a.dynamic_quant && a.row_block == 0;
      const bool bias = a.beta != 1 && float_constant(g, n, 2);
      if (weights) n.inputs[1] = scaled(g, n.inputs[1], std::exchange(a.alpha, 1));
      if (bias) n.inputs[2] = scaled(g, n.inputs[2], std::exchange(a.beta, 1));
      if (weights || bias) n.attrs = make_attrs<MatMulAttrs>(a);
    }
}

}  // namespace smelt::convert
