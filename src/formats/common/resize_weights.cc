#include "formats/common/resize_weights.h"

#include <algorithm>

#include "base/error.h"
#include "ops/resize/plan.h"

namespace smelt::formats {

Result<std::vector<ResizeWeights>> resize_weights(const Graph& graph, const Node& node) {
  const auto& a = static_cast<const ResizeAttrs&>(*node.attrs);
  const ValueType& x = graph.value(node.inputs[0]).type;
  const auto constant = [&](size_t i) -> const Tensor* {
    return i < node.inputs.size() && node.inputs[i] != kNoValue ? graph.value(node.inputs[i]).constant.get() : nullptr;
  };
  if (!x.is_static()) return Unsupported("an image whose size is unknown");
  for (size_t i = 1; i < node.inputs.size(); ++i)
    if (node.inputs[i] != kNoValue && !constant(i)) return Unsupported("sizes that are given at run time");
  SMELT_ASSIGN(const auto axes, plan_resize(a, x.shape, resize_request(constant(1), constant(2), constant(3))));
  std::vector<ResizeWeights> out;
  for (const ResizeAxis& axis : axes) {
    SMELT_ASSIGN(const AxisTaps taps, axis_taps(a, axis));
    if (taps.identity) continue;
    if (std::ranges::count(taps.outside, 1) > 0) return Unsupported("points outside the image");
    if (axis.in * axis.out > (int64_t{1} << 24)) return LimitReached("a matrix of ", axis.out, " x ", axis.in);
    Tensor m(DType::kF32, Shape{axis.out, axis.in});
    for (int64_t i = 0; i < axis.out; ++i)
      for (int64_t k = taps.begin[static_cast<size_t>(i)]; k < taps.begin[static_cast<size_t>(i) + 1]; ++k)
        m.data<float>()[i * axis.in + taps.index[static_cast<size_t>(k)]] +=
            static_cast<float>(taps.weight[static_cast<size_t>(k)]);
    out.push_back({axis.axis, std::move(m)});
  }
  return out;
}

}  // namespace smelt::formats
