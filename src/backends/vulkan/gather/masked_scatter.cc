// MaskedScatter: each true element of the mask takes the value at its running count.
#include "backends/vulkan/decompose/index_nodes.h"
#include "ops/reduce/reduce.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_masked_scatter(const KernelSpec& spec) {
  if (!unquantized(spec) || spec.inputs[1].dtype != DType::kBool) return nullptr;
  const Shape& y = spec.outputs[0].shape;
  const int64_t n = y.elements();
  Decomposition c(spec);
  const ValueId mask = c.reshape(c.expand(c.input(1), y), {n}), x = c.reshape(c.expand(c.input(0), y), {n});
  const ValueId count = c.add(Op::kCumulative, make_attrs<CumulativeAttrs>(), {c.cast(mask, DType::kI32), c.i64({0})});
  const ValueId taken = c.binary(Binary::kSub, count, c.scalar(DType::kI32, 1));
  GatherAttrs g;
  g.negative = false;
  const ValueId values = c.reshape(c.input(2), {spec.inputs[2].shape.elements()});
  const ValueId picked =
      c.add(Op::kGather, make_attrs<GatherAttrs>(g), {values, c.where(mask, taken, c.scalar(DType::kI32, 0))});
  return c.kernel({c.reshape(c.where(mask, picked, x), dims_of(y))}, "the mask takes more values than the source has");
}

}  // namespace smelt::vulkan
