#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "backends/vulkan/device/pipelines.h"
#include "backends/vulkan/layout/image_layout.h"

namespace smelt::vulkan::shaders {

/// One variant of a shader. `Interface` is the struct that codegen/shaders.py writes for it: Push and Constants are its
/// push and specialization constants, kMinBindings to kMaxBindings the numbers of bindings that its variants have,
/// kFirst and kCount say which of all_shaders() they are.
template <class Interface>
struct Variant {
  uint16_t index;  ///< in all_shaders()
  const Shader& operator*() const { return all_shaders()[index]; }
  const Shader* operator->() const { return &**this; }
  bool operator==(const Variant&) const = default;
};

/// The variant of that name; nullopt: the interface has none.
template <class Interface>
std::optional<Variant<Interface>> find_variant(std::string_view name) {
  for (uint16_t i = Interface::kFirst; i < Interface::kFirst + Interface::kCount; ++i)
    if (name == all_shaders()[i].name) return Variant<Interface>{i};
  return std::nullopt;
}

}  // namespace smelt::vulkan::shaders
