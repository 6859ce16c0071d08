#pragma once

#include <vector>

#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/core/type_checks.h"
#include "backends/vulkan/record/shader_kernel.h"
#include "ops/common/index.h"

namespace smelt::vulkan {

/// Invocations that reduce one row of `count` elements together (row_reduction.glsl): 1, kWidth or 256, or 0 if 256 are
/// too few for kMaxLoopIterations. `dense`: a row's elements are contiguous. `cost`: loop iterations per element.
inline uint32_t lanes_for(int64_t rows, int64_t count, bool dense, int64_t cost) {
  uint32_t lanes = count >= kWidth && (dense || rows < 1024) ? kWidth : 1;
  if (count / lanes * cost > kMaxLoopIterations) lanes = kWidth;
  if (count / lanes * cost > kMaxLoopIterations) lanes = 256;
  return count / lanes * cost > kMaxLoopIterations ? 0 : lanes;
}
/// Invocations of a workgroup with `lanes` of them on each row.
inline uint32_t row_width(uint32_t lanes) { return lanes == 1 ? kWidth : lanes; }

/// True if row shaders are to reduce by subgroup shuffles: the device has them, the lanes fill whole subgroups, and
/// SMELT_VULKAN_SUBGROUPS is not 0.
bool uses_subgroups(const KernelSpec& spec, uint32_t lanes);

/// Push constants of shaders that reduce or scan one axis.
struct AxisPush {
  uint32_t rows, extent, inner;
  explicit AxisPush(const AxisView& v)
      : rows(static_cast<uint32_t>(v.outer * v.inner)),
        extent(static_cast<uint32_t>(v.extent)),
        inner(static_cast<uint32_t>(v.inner)) {}
};

/// The dispatch grid of a row shader.
inline Grid row_grid(uint64_t rows, uint32_t lanes) { return Grid::flat(rows, lanes == 1 ? kWidth : 1); }

/// A shape divided into rows: the walk over the rows and the walk within one, for N operands.
template <int N, int R>
struct RowWalk {
  Walk<N, R> rows, row;

  /// Rows run along the dimensions in `axes`; `strides` are the operands' over all dimensions.
  static std::optional<RowWalk> make(const Shape& dims, const std::vector<int>& axes,
                                     const std::array<Shape, N>& strides) {
    std::vector<bool> inside(static_cast<size_t>(dims.rank()), false);
    for (int a : axes) inside[static_cast<size_t>(a)] = true;
    Shape part[2];
    std::array<Shape, N> own[2];
    for (int d = 0; d < dims.rank(); ++d) {
      const int w = inside[static_cast<size_t>(d)] ? 1 : 0;
      part[w].push_back(dims[d]);
      for (int k = 0; k < N; ++k) own[w][static_cast<size_t>(k)].push_back(strides[static_cast<size_t>(k)][d]);
    }
    const auto rows = Walk<N, R>::make(part[0], own[0]);
    const auto row = Walk<N, R>::make(part[1], own[1]);
    if (!rows || !row) return std::nullopt;
    return RowWalk{*rows, *row};
  }
  /// True if a row has one dimension at most.
  bool straight() const { return row.rank <= 1; }
  /// True if a row's elements are contiguous in operand 0.
  bool dense() const { return row.rank == 0 || row.stride[0][0] == 1; }
  /// lanes_for() with `passes` loops over each row that each compute the offsets of its elements.
  uint32_t lanes(int64_t passes) const {
    return lanes_for(rows.n, row.n, dense(), passes * (straight() ? 1 : 1 + int64_t{row.rank}));
  }
};

}  // namespace smelt::vulkan
