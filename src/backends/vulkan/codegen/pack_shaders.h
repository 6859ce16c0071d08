#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "backends/vulkan/device/spirv_streams.h"
#include "backends/vulkan/device/unpack_shaders.h"

/// Packs SPIR-V modules as device/unpack_shaders.h reads them.
namespace smelt::vulkan {

using SpirvModules = std::vector<std::vector<uint32_t>>;

/// Bytes 0 of all words, bytes 1, 2 and 3.
inline void append_planes(std::string& out, const std::vector<uint32_t>& words) {
  for (int shift = 0; shift < 32; shift += 8)
    for (const uint32_t word : words) out.push_back(static_cast<char>(word >> shift & 0xff));
}

/// A file of modules: their number, the words of each, first words of instructions in all of them (all uint32), and the
/// planes of the instructions' first words and of all other words, which are sorted into streams, as LZMA2 packs them.
inline std::string pack_shaders(const SpirvModules& modules) {
  std::vector<uint32_t> sizes = {static_cast<uint32_t>(modules.size())}, heads;
  size_t words = 0;
  for (const std::vector<uint32_t>& m : modules) {
    sizes.push_back(static_cast<uint32_t>(m.size()));
    words += m.size();
    for (size_t at = kSpirvHeaderWords; at < m.size(); at += instruction_words(m[at])) heads.push_back(m[at]);
  }
  SpirvStreams streams(heads, modules.size());
  std::vector<uint32_t> others(words - heads.size());
  size_t instruction = 0;
  for (const std::vector<uint32_t>& m : modules) {
    for (uint32_t i = 0; i < kSpirvHeaderWords; ++i) others.at(streams.next(SpirvStreams::kHeaders)) = m.at(i);
    SpirvIds ids(m[kSpirvIdBound], streams.count());
    for (size_t at = kSpirvHeaderWords; at < m.size(); at += instruction_words(m[at]), ++instruction) {
      ids.begin(m[at]);
      for (uint32_t i = 1; i < instruction_words(m[at]); ++i) {
        const size_t stream = streams.stream(instruction, i - 1);
        others.at(streams.next(stream)) = ids.encoded(m.at(at + i), stream);
      }
    }
  }
  std::string planes;
  append_planes(planes, heads);
  append_planes(planes, others);
  sizes.push_back(static_cast<uint32_t>(heads.size()));
  PackingSettings settings;
  std::string packed(lzma_stream_buffer_bound(planes.size()), '\0');
  size_t bytes = 0;
  if (lzma_raw_buffer_encode(settings.filters, nullptr, reinterpret_cast<const uint8_t*>(planes.data()), planes.size(),
                             reinterpret_cast<uint8_t*>(packed.data()), &bytes, packed.size()) != LZMA_OK)
    throw std::runtime_error("can't be packed");
  return std::string(reinterpret_cast<const char*>(sizes.data()), sizes.size() * sizeof(uint32_t)) +
         packed.substr(0, bytes);
}

}  // namespace smelt::vulkan
