#pragma once

#include <optional>

#include "backends/vulkan/core/kernel.h"
#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/record/recorder.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// The dispatch of cooperative_matrix.comp for a convolution with a constant filter.
class CooperativeMatrixTiling {
 public:
  enum class Factors { kFp16, kInt8 };
  /// Nullopt if the device has no such matrices, the shape is too small to profit (SMELT_VULKAN_MATRIX=1 skips this
  /// check, 0 forbids the kernel), or the convolution exceeds a dispatch.
  static std::optional<CooperativeMatrixTiling> make(const Device& device, const ConvShape& s, Factors factors);

  Grid grid;
  /// The specialization constants that follow from the device and the shape.
  template <class Constants>
  Constants constants(const ConvShape& s) const {
    Constants c;
    c.width = width_;
    c.m = size_.m;
    c.n = size_.n;
    c.k = size_.k;
    c.neighbours = s.channels_last;
    return c;
  }

 private:
  CooperativeMatrixTiling(const MatrixSize& size, uint32_t width) : size_(size), width_(width) {}
  MatrixSize size_;
  uint32_t width_;
};

/// The kernel of a float convolution of shape s, or of a matrix product as one, by cooperative matrices of float16,
/// with
/// --fp16. Input 1 is the constant filter, input 2 the bias if there is one. Nullptr if the shape does not suit them.
std::unique_ptr<Kernel> cooperative_matrix_kernel(const KernelSpec& spec, const std::optional<ConvShape>& s,
                                                  const Activation& act);

}  // namespace smelt::vulkan
