#include <cstring>

#include "backends/vulkan/device/device.h"

extern "C" {
#define SMELT_SHADER(name, source, buffers, defines) \
  extern const uint32_t smelt_shader_##name[];       \
  extern const uint32_t smelt_shader_end_##name[];
#define SMELT_TEXTURE_SHADER SMELT_SHADER
#include "backends/vulkan/core/shaders.inc"
#undef SMELT_SHADER
#undef SMELT_TEXTURE_SHADER
}

namespace smelt::vulkan {
namespace {

const Shader kShaders[] = {
#define SMELT_SHADER(name, source, buffers, defines) \
  {#name, &"bbbbbbbbbbbbbbbb"[16 - (buffers)], smelt_shader_##name, smelt_shader_end_##name},
#define SMELT_TEXTURE_SHADER(name, source, kinds, defines) \
  {#name, #kinds, smelt_shader_##name, smelt_shader_end_##name},
#include "backends/vulkan/core/shaders.inc"
#undef SMELT_SHADER
#undef SMELT_TEXTURE_SHADER
};

}  // namespace

std::span<const Shader> all_shaders() { return kShaders; }

const Shader* find_shader(const char* name) {
  for (const Shader& s : kShaders)
    if (std::strcmp(s.name, name) == 0) return &s;
  return nullptr;
}

}  // namespace smelt::vulkan
