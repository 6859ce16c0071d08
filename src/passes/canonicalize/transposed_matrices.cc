#include <algorithm>
#include <vector>

#include "ops/core/op.h"
#include "ops/matmul/matmul.h"
#include "ops/shape/shape.h"
#include "passes/passes.h"

namespace smelt {
namespace {

/// True if the last two dimensions, and only they, change places.
bool turns_matrices(const std::vector<int64_t>& perm, const Shape& shape) {
  if (perm.empty()) return shape.rank() == 2;
  const auto r = static_cast<int64_t>(perm.size());
  for (int64_t i = 0; i < r; ++i)
    if (perm[static_cast<size_t>(i)] != (i < r - 2 ? i : 2 * r - 3 - i)) return false;
  return r >= 2;
}

}  // namespace

void read_matrices_transposed(Graph& graph, Matrices matrices) {
  // By value: the matrices that a Transpose makes it from; kNoValue: another value.
  std::vector<ValueId> turned(graph.values.size(), kNoValue);
  const auto is_matrix = [&](ValueId id) {
    const Value& v = graph.value(id);
    if (matrices == Matrices::kDynamic) return !v.constant && !v.type.quant && v.type.dtype == DType::kF32;
    return v.constant && !v.type.quant && !v.constant->quant() && v.constant->rank() == 2 &&
           std::ranges::find(graph.inputs, id) == graph.inputs.end();  // a caller may replace a default
  };
  bool any = false;
  for (const Node& n : graph.nodes) {
    if (n.op != Op::kTranspose || n.inputs.size() != 1 || n.outputs[0] == kNoValue || !is_matrix(n.inputs[0])) continue;
    const auto& perm = static_cast<const TransposeAttrs&>(*n.attrs).perm;
    if (!turns_matrices(perm, graph.value(n.inputs[0]).type.shape)) continue;
    turned[static_cast<size_t>(n.outputs[0])] = n.inputs[0];
    any = true;
  }
  if (!any) return;
  for (Node& n : graph.nodes) {
    if (n.op != Op::kMatMul || n.inputs[1] == kNoValue) continue;
    const ValueId matrix = turned[static_cast<size_t>(n.inputs[1])];
    auto a = static_cast<const MatMulAttrs&>(*n.attrs);
    if (matrix == kNoValue || a.dynamic_quant || a.trans_batch_b) continue;
    a.transpose_b = !a.transpose_b;
    n.attrs = make_attrs<MatMulAttrs>(a);
    n.inputs[1] = matrix;
  }
  remove_dead_nodes(graph);
}

}  // namespace smelt
