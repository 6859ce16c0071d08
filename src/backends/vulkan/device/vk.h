#pragma once

// Vulkan's types and entry points, loaded at run time: nothing links to the loader.
#define VK_NO_PROTOTYPES
#include <volk.h>

#include "base/error.h"

namespace smelt::vulkan {

/// "VK_ERROR_DEVICE_LOST" and kin.
const char* to_string(VkResult result);

/// Success, or a kDevice error that names the call (kLimit when memory ran out).
Status check(VkResult result, const char* call);

}  // namespace smelt::vulkan
