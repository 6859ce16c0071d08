#pragma once

#include <cstddef>

namespace smelt::vulkan {

/// Offsets of bindings are multiples of this: Vulkan promises that no device demands more.
inline constexpr size_t kBindingAlignment = 256;

/// Bytes up to where the next binding may begin.
inline constexpr size_t align_binding(size_t bytes) {
  return (bytes + kBindingAlignment - 1) / kBindingAlignment * kBindingAlignment;
}

}  // namespace smelt::vulkan
