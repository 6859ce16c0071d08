#pragma once

#include <lzma.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smelt::vulkan {

/// The settings of LZMA2 by which shaders are packed: planes of bytes have no alignment, and the bytes in front say
/// more of the next one than its position.
struct PackingSettings {
  PackingSettings() {
    lzma_lzma_preset(&options, LZMA_PRESET_DEFAULT | LZMA_PRESET_EXTREME);
    options.lc = 4;
    options.lp = options.pb = 0;
  }
  PackingSettings(const PackingSettings&) = delete;
  PackingSettings& operator=(const PackingSettings&) = delete;

  lzma_options_lzma options;
  lzma_filter filters[2] = {{LZMA_FILTER_LZMA2, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
};

/// Number of words of each module of a file that codegen/pack_shaders.h wrote.
inline std::span<const uint32_t> module_sizes(const uint32_t* file) { return {file + 1, *file}; }

/// The words of all modules of such a file, which ends at `end`. The file is this program's own and taken as valid;
/// what fails is want of memory: throws std::bad_alloc.
std::vector<uint32_t> unpack_shaders(const uint32_t* file, const uint32_t* end);

}  // namespace smelt::vulkan
