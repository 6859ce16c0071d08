#include <cstring>
#include <iterator>
#include <mutex>
#include <vector>

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

ShaderFile files[] = {
#define SMELT_SHADER_FILE(file) {smelt_shaders_##file, smelt_shaders_end_##file},
#define SMELT_SHADER(...)
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER
};

enum FileIndex : uint8_t {
#define SMELT_SHADER_FILE(file) kFile_##file,
#define SMELT_SHADER(...)
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER
};

/// A Shader without its strings: a table of addresses would take 58 kB of the program.
struct Row {
  uint16_t push_bytes;
  uint8_t constants;
  FileIndex file;
  uint16_t index;
};

constexpr Row kRows[] = {
#define SMELT_SHADER_FILE(file)
#define SMELT_SHADER(name, kinds, push_bytes, constants, file, index) {push_bytes, constants, kFile_##file, index},
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER
};

/// Name and kinds of each row, in their order.
constexpr char kTexts[] =
#define SMELT_SHADER_FILE(file)
#define SMELT_SHADER(name, kinds, push_bytes, constants, file, index) #name "\0" kinds "\0"
#include "shader_table.inc"
#undef SMELT_SHADER_FILE
#undef SMELT_SHADER
    ;

const char* next_text(const char*& at) {
  const char* text = at;
  at += std::strlen(at) + 1;
  return text;
}

std::vector<Shader> make_shaders() {
  std::vector<Shader> shaders;
  shaders.reserve(std::size(kRows));
  const char* text = kTexts;
  for (const Row& r : kRows) {
    const char* name = next_text(text);
    shaders.push_back({name, next_text(text), r.push_bytes, r.constants, files[r.file], r.index});
  }
  return shaders;
}

}  // namespace

std::span<const uint32_t> Shader::words() const {
  std::call_once(file.once, [this] { file.unpack(); });
  size_t at = 0;
  for (size_t i = 0; i < index; ++i) at += file.sizes()[i];
  return {file.words.data() + at, file.sizes()[index]};
}

std::span<const Shader> all_shaders() {
  static const std::vector<Shader> shaders = make_shaders();
  return shaders;
}

const Shader* find_shader(const char* name) {
  for (const Shader& s : all_shaders())
    if (std::strcmp(s.name, name) == 0) return &s;
  return nullptr;
}

}  // namespace smelt::vulkan
