#pragma once

#include <optional>

#include "backends/vulkan/core/kernel.h"
#include "ops/conv/conv_shape.h"

namespace smelt::vulkan {

/// The shape of a ConvTranspose node; nullopt for hybrid ones, and where inputs do not fit the output.
std::optional<ConvShape> transposed_shape(const KernelSpec& spec);

}  // namespace smelt::vulkan
