#pragma once

#include <array>
#include <optional>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// How cooperative_matrix.comp makes a convolution with a constant filter by cooperative matrices.
class MatrixTiles {
 public:
  enum class Factors { kHalves, kBytes };
  /// Nullopt: the device has no such matrices, they aren't worth it (SMELT_VULKAN_MATRIX=1 says that they are), or the
  /// convolution is beyond what a dispatch takes.
  static std::optional<MatrixTiles> make(const Device& device, const ConvShape& s, Factors factors);

  std::array<uint32_t, 3> grid;
  /// Specialization constants. `flags`: kNeighbours, kFilterZeros, kInputZero of the shader.
  std::vector<uint32_t> constants(uint32_t rounding, std::array<bool, 3> flags) const {
    return {width_, size_.m, size_.n, rounding, flags[0], flags[1], flags[2], size_.k};
  }

 private:
  MatrixTiles(const MatrixSize& size, uint32_t width) : grid{}, size_(size), width_(width) {}
  MatrixSize size_;
  uint32_t width_;
};

}  // namespace smelt::vulkan
