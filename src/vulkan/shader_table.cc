#include <cstring>

#include "vulkan/device.h"

extern "C" {
#define SMELT_SHADER(name, source, bindings, defines) \
  extern const uint32_t smelt_shader_##name[];        \
  extern const uint32_t smelt_shader_end_##name[];
#include "vulkan/shaders.inc"
#undef SMELT_SHADER
}

namespace smelt::vulkan {
namespace {

const Shader kShaders[] = {
#define SMELT_SHADER(name, source, bindings, defines) {#name, bindings, smelt_shader_##name, smelt_shader_end_##name},
#include "vulkan/shaders.inc"
#undef SMELT_SHADER
};

}  // namespace

std::span<const Shader> all_shaders() { return kShaders; }

const Shader* find_shader(const char* name) {
  for (const Shader& s : kShaders)
    if (std::strcmp(s.name, name) == 0) return &s;
  return nullptr;
}

}  // namespace smelt::vulkan
