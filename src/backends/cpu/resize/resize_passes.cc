#include "backends/cpu/resize/resize_passes.h"

#include "ops/resize/plan.h"

namespace smelt {

template <class T>
std::optional<std::vector<ResizePass<T>>> resize_passes(const KernelSpec& spec) {
  const auto& a = spec.attrs<ResizeAttrs>();
  if (spec.inputs[0].shape.elements() == 0 || spec.outputs[0].shape.elements() == 0) return std::nullopt;
  if (a.coord == ResizeAttrs::Coord::kTfCropAndResize) return std::nullopt;
  Shape shape = spec.inputs[0].shape;
  const auto axes = plan_resize(a, shape, resize_request(spec.constant(1), spec.constant(2), spec.constant(3)));
  if (!axes.ok()) return std::nullopt;
  std::vector<ResizePass<T>> passes;
  for (size_t i = axes->size(); i-- > 0;) {
    const ResizeAxis& axis = (*axes)[i];
    if (axis.axis < 0 || axis.axis >= shape.rank() || axis.out < 1) return std::nullopt;
    const auto taps = axis_taps(a, axis);
    if (!taps.ok()) return std::nullopt;
    if (taps->identity && axis.in == axis.out) continue;
    ResizePass<T> p{1, axis.in, axis.out, 1, taps->begin, taps->index, {taps->weight.begin(), taps->weight.end()}};
    for (int d = 0; d < axis.axis; ++d) p.outer *= shape[d];
    for (int d = axis.axis + 1; d < shape.rank(); ++d) p.inner *= shape[d];
    for (size_t k = 0; k + 1 < p.begin.size(); ++k)
      if (p.begin[k + 1] <= p.begin[k]) return std::nullopt;
    shape[axis.axis] = axis.out;
    passes.push_back(std::move(p));
  }
  if (shape != spec.outputs[0].shape) return std::nullopt;
  return passes;
}
template std::optional<std::vector<ResizePass<float>>> resize_passes(const KernelSpec&);
template std::optional<std::vector<ResizePass<double>>> resize_passes(const KernelSpec&);

}  // namespace smelt
