#pragma once

#include <array>
#include <optional>
#include <span>

#include "smelt/tensor.h"

namespace smelt::vulkan {

/// A walk over an index space with N operands: sizes and element strides of at most R dimensions, innermost first.
/// Dimensions are merged where all operands allow. strides.glsl reads this layout from push constants.
template <int N, int R = N <= 2 ? 8 : 6>
struct Walk {
  static constexpr int kMaxRank = R;
  uint32_t n = 0, rank = 0;
  uint32_t size[kMaxRank] = {};
  int32_t stride[N][kMaxRank] = {};

  /// Strides are in elements and may be 0 (repeated) or negative. Nullopt when the merged rank is too large.
  static std::optional<Walk> make(const Shape& dims, const std::array<Shape, N>& strides) {
    Walk w;
    w.n = static_cast<uint32_t>(dims.elements());
    for (int d = dims.rank() - 1; d >= 0; --d) {
      if (dims[d] == 1) continue;
      bool merges = w.rank > 0;
      for (int k = 0; k < N && merges; ++k)
        merges = strides[k][d] == w.stride[k][w.rank - 1] * static_cast<int64_t>(w.size[w.rank - 1]);
      if (merges) {
        w.size[w.rank - 1] *= static_cast<uint32_t>(dims[d]);
        continue;
      }
      if (w.rank == kMaxRank) return std::nullopt;
      w.size[w.rank] = static_cast<uint32_t>(dims[d]);
      for (int k = 0; k < N; ++k) w.stride[k][w.rank] = static_cast<int32_t>(strides[k][d]);
      ++w.rank;
    }
    return w;
  }
};

/// Strides of an operand that broadcasts to `out`: 0 along the dimensions that repeat.
inline Shape broadcast_strides(const Shape& in, const Shape& out) {
  Shape s = Shape::of_rank(out.rank(), 0);
  const Shape own = in.strides();
  for (int i = 0; i < in.rank(); ++i)
    if (in[i] != 1) s[i + out.rank() - in.rank()] = own[i];
  return s;
}

}  // namespace smelt::vulkan
