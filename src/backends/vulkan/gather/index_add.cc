// IndexPut that accumulates, by ScatterND.
#include <algorithm>

#include "backends/vulkan/decompose/index_nodes.h"
#include "ops/common/broadcast.h"
#include "ops/shape/shape.h"

namespace smelt::vulkan {

std::unique_ptr<Kernel> make_index_add(const KernelSpec& spec) {
  const Shape& x = spec.inputs[0].shape;
  const auto tuple = static_cast<int>(spec.inputs.size()) - 2;
  if (!spec.attrs<IndexAttrs>().accumulate || !unquantized(spec) || tuple < 1 || tuple > std::min(4, x.rank()))
    return nullptr;
  if (spec.outputs[0].dtype == DType::kBool) return spec.refuse("bools are not accumulated");
  Shape place;
  for (size_t i = 2; i < spec.inputs.size(); ++i) {
    if (!spec.has(i) || spec.inputs[i].dtype != spec.inputs[2].dtype || !is_index_type(spec.inputs[i].dtype))
      return spec.refuse("only indices of one integer type in leading dimensions are accumulated");
    const auto joint = broadcast_shapes(place, spec.inputs[i].shape);
    if (!joint.ok()) return nullptr;
    place = *joint;
  }
  const int64_t n = place.elements();
  Decomposition c(spec);
  std::vector<ValueId> columns;
  for (size_t i = 2; i < spec.inputs.size(); ++i) columns.push_back(c.reshape(c.expand(c.input(i), place), {n, 1}));
  const ValueId tuples =
      columns.size() == 1 ? columns[0] : c.add(Op::kConcat, make_attrs<AxisAttrs>(1), std::move(columns));
  std::vector<int64_t> slices{n};
  for (int d = tuple; d < x.rank(); ++d) {
    place.push_back(x[d]);
    slices.push_back(x[d]);
  }
  ValueId values = c.input(1);
  if (c.shape(values).elements() != place.elements()) values = c.expand(values, place);
  return c.kernel({scatter_nd(c, c.input(0), tuples, c.reshape(values, slices), ScatterAttrs::Reduce::kAdd)});
}

}  // namespace smelt::vulkan
