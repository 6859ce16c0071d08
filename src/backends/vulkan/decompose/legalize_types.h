#pragma once

#include "backends/vulkan/core/kernel.h"

namespace smelt::vulkan {

/// A kernel that converts the node's operands to wider element types on the device, runs a kernel of the list, and
/// converts the results back: float32 for narrower floats and for quantized values of operators whose reference
/// dequantizes them, int32 or int64 for narrower integers. Null if no such kernel gives the reference's results.
std::unique_ptr<Kernel> make_legalized(const KernelSpec& spec);

}  // namespace smelt::vulkan
