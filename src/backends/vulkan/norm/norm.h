#pragma once

#include <optional>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/core/strides.h"
#include "ops/normalization/normalization.h"

namespace smelt::vulkan {

/// Codes of norm.glsl.
enum NormKind : uint32_t { kMoments, kRms, kDeviation, kL1, kL2, kL1Max, kL2Max, kGiven };

inline NormKind norm_kind(const LayerNormAttrs& attrs) { return attrs.rms ? kRms : kMoments; }
inline NormKind norm_kind(const LpNormAttrs& attrs) {
  return attrs.p == 1 ? (attrs.epsilon_max ? kL1Max : kL1) : (attrs.epsilon_max ? kL2Max : kL2);
}
inline constexpr double kDeviationEpsilon = 1e-9;  ///< of MeanVarianceNorm

/// Strides of parameter `i` as it broadcasts to `shape`, zeros where it is absent; nullopt when it does not.
inline std::optional<Shape> parameter_strides(const KernelSpec& spec, size_t i, const Shape& shape) {
  if (!spec.has(i)) return Shape::of_rank(shape.rank(), 0);
  const Shape& p = spec.inputs[i].shape;
  if (p.rank() > shape.rank()) return std::nullopt;
  for (int d = 1; d <= p.rank(); ++d)
    if (p[p.rank() - d] != 1 && p[p.rank() - d] != shape[shape.rank() - d]) return std::nullopt;
  return broadcast_strides(p, shape);
}

inline int channel_axis(Layout layout, int rank) {
  return rank < 2 ? 0 : layout == Layout::kChannelsFirst ? 1 : rank - 1;
}

}  // namespace smelt::vulkan
