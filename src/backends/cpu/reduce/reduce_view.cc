#include "backends/cpu/reduce/reduce_view.h"

#include <vector>

#include "tensor/numeric.h"

namespace smelt {
std::optional<ReduceView> reduce_view(const NodeSpec& spec) {
  const auto& attrs = spec.attrs<ReduceAttrs>();
  const Shape& shape = spec.inputs[0].shape;
  if (shape.elements() == 0) return std::nullopt;
  const Tensor* axes = spec.constant(1);
  std::vector<bool> reduced(static_cast<size_t>(shape.rank()), false);
  if (axes && axes->elements() > 0) {
    for (int64_t i = 0; i < axes->elements(); ++i) {
      int64_t axis = get_int(*axes, i);
      axis += axis < 0 ? shape.rank() : 0;
      if (axis < 0 || axis >= shape.rank()) return std::nullopt;
      reduced[static_cast<size_t>(axis)] = true;
    }
  } else {
    if (attrs.noop_with_empty_axes) return std::nullopt;
    reduced.assign(reduced.size(), true);
  }
  // Dimensions of 1 count as reduced or not, whatever keeps the reduced ones together.
  int first = 0, last = shape.rank();
  while (first < last && (!reduced[static_cast<size_t>(first)] || shape[first] == 1)) ++first;
  while (last > first && (!reduced[static_cast<size_t>(last - 1)] || shape[last - 1] == 1)) --last;
  for (int d = first; d < last; ++d)
    if (!reduced[static_cast<size_t>(d)] && shape[d] != 1) return std::nullopt;
  return ReduceView{product(shape, 0, first), product(shape, first, last), product(shape, last, shape.rank())};
}

std::optional<AxisView> cumulative_sum_view(const NodeSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  const Tensor& axis = *spec.constant(1);
  if (spec.attrs<CumulativeAttrs>().fn != CumulativeAttrs::Fn::kSum || axis.elements() != 1 || shape.elements() == 0)
    return std::nullopt;
  if (shape.rank() == 0) return AxisView{};
  const auto normal = normalize_axis(get_int(axis, 0), shape.rank());
  return normal.ok() ? std::optional(axis_view(shape, *normal)) : std::nullopt;
}

}  // namespace smelt
