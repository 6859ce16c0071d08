// ExpertMatMul, decomposed into matrices that are gathered for each row, and products with these.
#include <vector>

#include "ops/gather/gather.h"
#include "ops/matmul/experts.h"
#include "ops/shape/shape.h"
#include "passes/decompose/rules.h"

namespace smelt::decomposition {

std::optional<DecomposedNode> expert_matmul(const NodeSpec& spec) {
  const auto& a = spec.attrs<ExpertMatMulAttrs>();
  const Shape& matrix = spec.inputs[kFirstExpert].shape;
  const auto g = expert_geometry(a, spec.inputs[0].shape, spec.inputs[1].shape, matrix);
  if (!g.ok() || !unquantized(spec, {0}, kFloatTypes)) return std::nullopt;
  Decomposition c(spec);
  std::vector<ValueId> matrices;
  for (size_t i = kFirstExpert; i < spec.inputs.size(); ++i) {
    ValueId m = c.input(i);
    if (spec.inputs[i].quant)
      m = c.add_as(Op::kDequantize, make_attrs<NoAttrs>(), {m}, ValueType::tensor(spec.inputs[0].dtype, matrix));
    matrices.push_back(c.reshape(m, {1, matrix[0], matrix[1]}));
  }
  const ValueId all = c.add(Op::kConcat, make_attrs<AxisAttrs>(0), matrices);
  const ValueId chosen = c.add(Op::kGather, make_attrs<GatherAttrs>(), {all, c.input(1)});
  const ValueId rows = c.reshape(c.input(0), {spec.inputs[0].shape[0], g->shared ? 1 : g->each, 1, g->in});
  MatMulAttrs product;
  product.transpose_b = a.transposed;
  const ValueId y = c.add(Op::kMatMul, make_attrs<MatMulAttrs>(product), {rows, chosen});
  return c.finish({c.reshape(y, {g->tokens, g->each, g->out})});
}

}  // namespace smelt::decomposition
