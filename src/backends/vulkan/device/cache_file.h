#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/vulkan/device/vk.h"

namespace smelt::vulkan {

/// Where a device's pipelines are kept between runs; "" when there is no place for caches. SMELT_CACHE_DIR names the
/// folder, else it lies in the user's cache.
std::string cache_file(const VkPhysicalDeviceProperties& device);

/// What write_cache_file() kept: bytes for vkCreatePipelineCache. Empty when there is no file, when it is damaged, or
/// when another device or driver made it.
std::vector<char> read_cache_file(const std::string& path, const VkPhysicalDeviceProperties& device);

/// Keeps the bytes; a reader never sees half a file. Without a place to write there is no cache.
void write_cache_file(const std::string& path, std::span<const char> bytes);

}  // namespace smelt::vulkan
