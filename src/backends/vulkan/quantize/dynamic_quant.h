#pragma once

#include <array>
#include <optional>
#include <vector>

#include "backends/vulkan/core/row_reduction.h"
#include "backends/vulkan/device/alignment.h"

namespace smelt::vulkan {

/// One pass over the rows of input 0, each of which chooses a grid of integers (dynamic_quant.comp).
struct RowGrid {
  /// The shader's rules.
  enum class Rule : uint32_t { kSymmetric, kAsymmetric, kBalanced, kHybrid, kHybridAsymmetric };
  struct Push {
    uint32_t rows, count;
    int32_t low, high;
    float epsilon;
  };
  const char* shader;
  Rule rule;
  Push push;
  uint32_t lanes;

  /// Nullopt when rows of `length` are too long for a workgroup. `push`: without rows and count.
  static std::optional<RowGrid> make(const KernelSpec& spec, const char* shader, Rule rule, int64_t length, Push push);
  Status record(KernelRecorder& r, std::vector<Binding> results) const;
};

/// Rows as integers, with their scales and zero points, in scratch memory.
struct StoredRows {
  RowGrid grid;
  size_t values() const { return align_binding(size_t{grid.push.rows} * grid.push.count); }
  size_t scales() const { return align_binding(size_t{grid.push.rows} * sizeof(float)); }
  size_t zeros() const { return align_binding(grid.push.rows); }
  size_t bytes() const { return values() + scales() + zeros(); }
  /// Bindings of the three.
  std::array<Binding, 3> places(KernelRecorder& r, bool written) const;
  Status record(KernelRecorder& r) const;
};

/// How rows of input 0 of a hybrid operator find their grids, as reals (`shader` round_rows_f32) or as integers
/// (dynamic_quantize_i8).
std::optional<RowGrid> hybrid_rows(const KernelSpec& spec, const char* shader, int64_t length, bool asymmetric);

inline Node with_attrs(const Node& node, AttrsPtr attrs) {
  Node n = node;
  n.attrs = std::move(attrs);
  return n;
}

}  // namespace smelt::vulkan
