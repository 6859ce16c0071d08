#pragma once

#include <optional>

#include "backends/vulkan/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// The sizes of a node ConvTranspose; nullopt where kernels do not go.
std::optional<ConvShape> transposed_shape(const KernelSpec& spec);

}  // namespace smelt::vulkan
