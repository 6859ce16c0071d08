#pragma once

#include <initializer_list>

#include "vulkan/kernel.h"

namespace smelt::vulkan {

/// Invocations of a workgroup of shaders that work element by element.
inline constexpr uint32_t kWidth = 64;

/// Whether these inputs and outputs are all float32, or all float16, and not quantized.
bool plain_reals(const KernelSpec& spec, std::initializer_list<size_t> inputs, std::initializer_list<size_t> outputs);

}  // namespace smelt::vulkan
