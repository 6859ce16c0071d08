#pragma once

#include <vector>

#include "backends/vulkan/core/common.h"
#include "backends/vulkan/core/strides.h"
#include "backends/vulkan/record/kernel_recorder.h"
#include "ops/common/index.h"

namespace smelt::vulkan {

/// Lanes that work on one row of `count` elements together (row_reduction.glsl): 1, kWidth or 256; 0 when even that is
/// too few. `dense`: the elements of a row are neighbours, else neighbouring rows are. `cost`: iterations an element.
inline uint32_t lanes_for(int64_t rows, int64_t count, bool dense, int64_t cost) {
  uint32_t lanes = count >= kWidth && (dense || rows < 1024) ? kWidth : 1;
  if (count / lanes * cost > kMaxRounds) lanes = kWidth;
  if (count / lanes * cost > kMaxRounds) lanes = 256;
  return count / lanes * cost > kMaxRounds ? 0 : lanes;
}
/// The workgroup's width for so many lanes a row.
inline uint32_t row_width(uint32_t lanes) { return lanes == 1 ? kWidth : lanes; }

/// The variant of a shader of rows whose lanes see each other's values, where the device has it and lanes work
/// together; else the shader itself. SMELT_VULKAN_SUBGROUPS=0 forbids it.
const char* row_shader(const KernelSpec& spec, const char* shader, uint32_t lanes);

/// Push constants of shaders that walk one axis.
struct AxisPush {
  uint32_t rows, extent, inner;
  explicit AxisPush(const AxisView& v)
      : rows(static_cast<uint32_t>(v.outer * v.inner)),
        extent(static_cast<uint32_t>(v.extent)),
        inner(static_cast<uint32_t>(v.inner)) {}
};

/// The grid of a shader of rows.
inline void set_row_grid(Dispatch& d, uint64_t rows, uint32_t lanes) { set_grid(d, rows, lanes == 1 ? kWidth : 1); }

/// A shape cut into rows: the walk over rows and the walk inside of one, with N operands.
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
  /// Whether a row's elements are one dimension.
  bool straight() const { return row.rank <= 1; }
  bool dense() const { return row.rank == 0 || row.stride[0][0] == 1; }
  /// Lanes for so many passes over each row, offsets being worked out in every one.
  uint32_t lanes(int64_t passes) const {
    return lanes_for(rows.n, row.n, dense(), passes * (straight() ? 1 : 1 + int64_t{row.rank}));
  }
};

}  // namespace smelt::vulkan
