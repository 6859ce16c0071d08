#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/device/vk.h"

/// Cooperative matrices: products of small matrices that a subgroup makes together. Shaders are written with
/// SPV_NV_cooperative_matrix, which the shader compiler knows, and run with VK_KHR_cooperative_matrix, which devices
/// have.
namespace smelt::vulkan {

inline constexpr const char* kCooperativeMatrixExtension = "VK_KHR_cooperative_matrix";

/// VkPhysicalDeviceCooperativeMatrixFeaturesKHR, which older headers lack.
struct CooperativeMatrixFeatures {
  VkStructureType type = static_cast<VkStructureType>(1000506000);
  void* pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE, cooperativeMatrixRobustBufferAccess = VK_FALSE;
};

/// The largest matrices that cooperative_matrix.comp can use: of float16 with sums in float32, and of int8 with sums in
/// int32.
struct CooperativeMatrixSizes {
  std::optional<MatrixSize> halves, bytes;
};
CooperativeMatrixSizes cooperative_matrix_sizes(VkInstance instance, VkPhysicalDevice device);

/// Whether the module declares cooperative matrices.
bool uses_cooperative_matrix(std::span<const uint32_t> module);

/// The module with SPV_KHR_cooperative_matrix in place of SPV_NV_cooperative_matrix; empty: it has no such matrices.
/// The types of what is multiplied and of sums have to be different ones.
std::vector<uint32_t> to_khr_cooperative_matrix(std::span<const uint32_t> module);

}  // namespace smelt::vulkan
