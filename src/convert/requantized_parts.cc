// Parts of a concatenation that are brought to its quantization parameters before.
#include <algorithm>

#include "convert/convert.h"
#include "ops/common/quantized_pair.h"
#include "ops/core/op.h"
#include "ops/elementwise/elementwise.h"
#include "passes/passes.h"
#include "tensor/numeric.h"
#include "tensor/quant_params.h"

namespace smelt::convert {
namespace {

/// True if a quantized constant holds the real number 1 alone.
bool is_one(const Value& v) {
  if (!v.constant || v.constant->elements() != 1) return false;
  const QuantPtr q = v.type.quant ? v.type.quant : v.constant->quant();
  if (!q) return v.constant->dtype() == DType::kF32 && v.constant->data<float>()[0] == 1;
  return is_per_tensor(q) && q->scale() * static_cast<float>(get_int(*v.constant, 0) - q->zero_point()) == 1;
}

/// What a node gives in other parameters and does not change otherwise; kNoValue: it does more.
ValueId requantized(const Graph& g, const Node& n) {
  if (n.outputs.size() != 1 || n.outputs[0] == kNoValue) return kNoValue;
  const auto bytes = [&](ValueId id) {
    const ValueType& t = g.value(id).type;
    return is_8bit(t.dtype) && is_per_tensor(t.quant) && !g.value(id).constant;
  };
  if (!bytes(n.outputs[0])) return kNoValue;
  if (n.op == Op::kQuantize) return bytes(n.inputs[0]) ? n.inputs[0] : kNoValue;
  if (n.op != Op::kBinary) return kNoValue;
  const auto& a = static_cast<const BinaryAttrs&>(*n.attrs);
  if (a.fn != Binary::kMul || a.act.kind != ActKind::kNone) return kNoValue;
  for (size_t i = 0; i < 2; ++i)
    if (is_one(g.value(n.inputs[1 - i])) && bytes(n.inputs[i]) &&
        g.value(n.inputs[i]).type.shape == g.value(n.outputs[0]).type.shape)
      return n.inputs[i];
  return kNoValue;
}

void join_parts(Graph& g) {
  std::vector<ValueId> before(g.values.size(), kNoValue);
  bool changed = false;
  for (Node& n : g.nodes) {
    if (const ValueId x = requantized(g, n); x != kNoValue) before[static_cast<size_t>(n.outputs[0])] = x;
    if (n.op != Op::kConcat) continue;
    const ValueType& y = g.value(n.outputs[0]).type;
    for (ValueId& id : n.inputs) {
      const ValueId x = id == kNoValue ? kNoValue : before[static_cast<size_t>(id)];
      if (x == kNoValue || !same_quant_params(g.value(id).type.quant, y.quant) ||
          g.value(x).type.dtype != g.value(id).type.dtype)
        continue;
      id = x;
      changed = true;
    }
  }
  if (changed) remove_dead_nodes(g);
}

}  // namespace

void join_before_requantization(Module& module) {
  for (Graph& graph : module.graphs) join_parts(graph);
}

}  // namespace smelt::convert
