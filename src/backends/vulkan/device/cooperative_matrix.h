#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/device/vk.h"

/// Cooperative matrices: products of small matrices by a whole subgroup. Shaders are compiled to
/// SPV_NV_cooperative_matrix, which glslc supports, and translated to SPV_KHR_cooperative_matrix, which devices
/// support.
namespace smelt::vulkan {

inline constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR, which older headers lack.
struct CooperativeMatrixFeatures {
  VkStructureType type = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE, cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

/// The largest matrices that cooperative_matrix.comp can use: of float16 with float32 accumulators, and of int8 with
/// int32 accumulators.
struct CooperativeMatrixSizes {
  std::optional<MatrixSize> float16, bytes;
};
CooperativeMatrixSizes cooperative_matrix_sizes(VkInstance instance, VkPhysicalDevice device);

/// True if the SPIR-V module declares cooperative matrix types.
bool uses_cooperative_matrix(std::span<const uint32_t> module);

/// The module translated from SPV_NV_cooperative_matrix to SPV_KHR_cooperative_matrix; empty if it has no such
/// matrices. Precondition: operands and accumulators have different element types.
std::vector<uint32_t> to_khr_cooperative_matrix(std::span<const uint32_t> module);

}  // namespace smelt::vulkan
