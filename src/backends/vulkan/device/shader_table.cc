#include <cstring>
#include <mutex>

#include "backends/vulkan/device/device.h"
#include "backends/vulkan/device/unpack_shaders.h"

extern "C" {
#define SMELT_SHADER_FILE(file)                 \
  extern const uint32_t smelt_shaders_##file[]; \
  extern const uint32_t smelt_shaders_end_##file[];
#define SMELT_SHADER(...)
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER
}

namespace smelt::vulkan {

/// The shaders of one source as codegen/compile_shaders.cc writes them, and their SPIR-V once it has been asked for.
struct ShaderFile {
  const uint32_t *begin, *end;
  std::once_flag once{};
  std::vector<uint32_t> words{};

  std::span<const uint32_t> sizes() const { return module_sizes(begin); }
  void unpack() { words = unpack_shaders(begin, end); }
};

namespace {

#define SMELT_SHADER_FILE(file) ShaderFile file_##file{smelt_shaders_##file, smelt_shaders_end_##file};
#define SMELT_SHADER(...)
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER

const Shader kShaders[] = {
#define SMELT_SHADER_FILE(file)
#define SMELT_SHADER(name, kinds, push_bytes, constants, file, index) \
  {#name, kinds, push_bytes, constants, file_##file, index},
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER
};

}  // namespace

std::span<const uint32_t> Shader::words() const {
  std::call_once(file.once, [this] { file.unpack(); });
  size_t at = 0;
  for (size_t i = 0; i < index; ++i) at += file.sizes()[i];
  return {file.words.data() + at, file.sizes()[index]};
}

std::span<const Shader> all_shaders() { return kShaders; }

const Shader* find_shader(const char* name) {
  for (const Shader& s : kShaders)
    if (std::strcmp(s.name, name) == 0) return &s;
  return nullptr;
}

}  // namespace smelt::vulkan
