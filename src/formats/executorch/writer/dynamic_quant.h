#pragma once

#include "graph/graph.h"
#include "smelt/result.h"

namespace smelt::executorch {

/// x as TFLite's kernels of float32 and 8-bit weights see it: quantized to int8 with parameters of its own for each
/// row, and back. `Ops` builds the formula on values of type Ops::Value: its lowest() and highest() reduce a row to one
/// element.
template <class Ops>
typename Ops::Value fake_quantized_rows(Ops& ops, typename Ops::Value x, bool asymmetric) {
  using Value = typename Ops::Value;
  const Value none = ops.number(0), one = ops.number(1), top = ops.number(127);
  const auto positive_or_one = [&](Value v) { return ops.select(ops.less(none, v), v, one); };
  if (!asymmetric) {
    const Value range = ops.highest(ops.abs(x));
    const Value steps = ops.rounded(ops.mul(x, ops.div(top, positive_or_one(range))));
    const Value levels = ops.clamp(steps, -127, 127);
    return ops.mul(levels, ops.div(range, top));
  }
  const Value low = ops.min(ops.lowest(x), none), high = ops.max(ops.highest(x), none);
  const Value width = ops.sub(high, low), scale = positive_or_one(ops.div(width, ops.number(255)));
  const Value below = ops.div(low, scale), above = ops.div(high, scale);
  // The zero point follows from the end of the range that loses less.
  const Value at_low = ops.add(ops.abs(below), one), from_low = ops.less(at_low, ops.abs(above));
  const Value by_low = ops.sub(ops.number(-128), below), exact = ops.select(from_low, by_low, ops.sub(top, above));
  const Value zero = ops.rounded(ops.clamp(exact, -128, 127));
  const Value steps = ops.add(ops.rounded(ops.mul(x, ops.div(one, scale))), zero);
  return ops.mul(ops.sub(ops.clamp(steps, -128, 127), zero), scale);
}

/// True if the node multiplies float32 with quantized weights and quantizes the former at run time by TFLite's rule.
bool quantizes_rows(const Graph& graph, const Node& node);
/// Replaces such nodes by the formula of fake_quantized_rows() and a product of real numbers. `delegate`: products
/// whose rows XNNPACK itself quantizes to the same range stay.
Status split_dynamic_quant(Module& module, bool delegate);

}  // namespace smelt::executorch
