// Clamp with bounds that are not constant.
#include "backends/vulkan/decompose/decomposition.h"
#include "ops/elementwise/elementwise.h"

namespace smelt::vulkan {

/// min(max(x, lower), upper) with broadcast bounds.
std::unique_ptr<Kernel> make_clamp_dynamic(const KernelSpec& spec) {
  for (size_t i = 0; i < spec.inputs.size(); ++i)
    if (spec.has(i) && (spec.inputs[i].dtype != spec.outputs[0].dtype || spec.inputs[i].quant)) return nullptr;
  if (spec.outputs[0].quant) return nullptr;
  Decomposition c(spec);
  ValueId v = c.input(0);
  if (spec.has(1)) v = c.add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMax), {v, c.input(1)});
  if (spec.has(2)) v = c.add(Op::kBinary, make_attrs<BinaryAttrs>(Binary::kMin), {v, c.input(2)});
  return c.kernel({v});
}

}  // namespace smelt::vulkan
