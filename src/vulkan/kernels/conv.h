#pragma once

#include <optional>

#include "ops/conv/conv_shape.h"
#include "vulkan/kernel.h"

namespace smelt::vulkan {

/// The sizes of a node ConvTranspose; nullopt where kernels do not go.
std::optional<ConvShape> transposed_shape(const KernelSpec& spec);

}  // namespace smelt::vulkan
