#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace smelt::vulkan {

constexpr size_t kShortestRepeat = 8;  ///< bytes of the shortest repeat in a packed file

/// Number of words of each module of a file that codegen/pack_shaders.h wrote.
inline std::span<const uint32_t> module_sizes(const uint32_t* file) { return {file + 1, *file}; }

/// The words of all modules of such a file, which ends at `end`. The file is this program's own and taken as valid;
/// what fails is want of memory: throws std::bad_alloc.
std::vector<uint32_t> unpack_shaders(const uint32_t* file, const uint32_t* end);

}  // namespace smelt::vulkan
