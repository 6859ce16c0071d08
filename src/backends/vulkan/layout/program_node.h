#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "backends/vulkan/core/kernel.h"

namespace smelt::vulkan {

/// A node of a plan as the device's part of it is made.
struct ProgramNode {
  const Node* node = nullptr;
  Placement placement = Placement::kElsewhere;
  std::unique_ptr<Kernel> kernel;  ///< kHere
  const char* kernel_name = "";
  std::string storage;  ///< form of the textures that the kernel works on; "": buffers
};

}  // namespace smelt::vulkan
