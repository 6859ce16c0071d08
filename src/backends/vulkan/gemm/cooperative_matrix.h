#pragma once

#include <array>
#include <optional>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// The dispatch of cooperative_matrix.comp for a convolution with a constant filter.
class CooperativeMatrixTiling {
 public:
  enum class Factors { kFp16, kInt8 };
  /// Nullopt if the device has no such matrices, the shape is too small to profit (SMELT_VULKAN_MATRIX=1 skips this
  /// check, 0 forbids the kernel), or the convolution exceeds a dispatch.
  static std::optional<CooperativeMatrixTiling> make(const Device& device, const ConvShape& s, Factors factors);

  std::array<uint32_t, 3> grid;
  /// Specialization constants. `flags`: kNeighbours, kFilterZeros, kInputZero of the shader.
  std::vector<uint32_t> constants(uint32_t rounding, std::array<bool, 3> flags) const {
    return {width_, size_.m, size_.n, rounding, flags[0], flags[1], flags[2], size_.k};
  }

 private:
  CooperativeMatrixTiling(const MatrixSize& size, uint32_t width) : grid{}, size_(size), width_(width) {}
  MatrixSize size_;
  uint32_t width_;
};

}  // namespace smelt::vulkan
