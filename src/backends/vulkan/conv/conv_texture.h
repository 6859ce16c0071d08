#pragma once

#include "backends/vulkan/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// The parameters of a texture convolution besides its shape.
struct ConvTexturePlan {
  uint32_t axes = 0;  ///< pixel_axes()
  bool transposed = false, inputs_first = false;
  Activation act = {};
};

/// The kernel of a convolution, or of a matrix product as one, of images with a constant filter, input 1, that the
/// device packs, and an optional bias, input 2. Nullptr for what conv_texture.comp cannot run.
std::unique_ptr<Kernel> conv_texture(const KernelSpec& spec, const ConvShape& s, const ConvTexturePlan& plan);

}  // namespace smelt::vulkan
