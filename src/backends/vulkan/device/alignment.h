#pragma once

#include <cstddef>

#include "base/checked.h"

namespace smelt::vulkan {

/// Alignment of the offsets of bindings: no Vulkan device may require more.
inline constexpr size_t kBindingAlignment = 256;

/// Size of a binding up to the next aligned offset.
inline size_t align_binding(size_t bytes) { return round_up(bytes, kBindingAlignment); }

}  // namespace smelt::vulkan
