#include <cstring>

#include "backends/vulkan/device/device.h"

extern "C" {
#define SMELT_SHADER(name, kinds, push_bytes, constants) \
  extern const uint32_t smelt_shader_##name[];           \
  extern const uint32_t smelt_shader_end_##name[];
#include "shader_table.inc"
#undef SMELT_SHADER
}

namespace smelt::vulkan {
namespace {

const Shader kShaders[] = {
#define SMELT_SHADER(name, kinds, push_bytes, constants) \
  {#name, kinds, push_bytes, constants, smelt_shader_##name, smelt_shader_end_##name},
#include "shader_table.inc"
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
