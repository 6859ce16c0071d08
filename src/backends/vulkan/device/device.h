#pragma once

#include <memory>

#include "backends/vulkan/device/backend.h"
#include "backends/vulkan/device/pipelines.h"
#include "backends/vulkan/device/queue.h"
#include "smelt/tensor.h"

namespace smelt::vulkan {

class Heap;

/// An opened device: one compute queue, pipelines, and a pipeline cache on disk. Thread-safe.
class Device {
 public:
  static Result<std::shared_ptr<Device>> open(int index);
  /// Pipelines::settle() of all devices that are open.
  static void settle();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  VkDevice handle() const { return device_; }
  VkPhysicalDevice physical() const { return physical_; }
  uint32_t queue_family() const { return family_; }
  const DeviceInfo& info() const { return info_; }
  const VkPhysicalDeviceLimits& limits() const { return properties_.limits; }
  /// True if activations lie in memory that the host maps, cached.
  bool unified() const { return unified_; }
  /// True if shaders can load and store elements of this type (64-bit ones as pairs of words).
  bool stores(DType dtype) const;
  /// True if images can be placed in the memory of activations.
  bool textures() const { return textures_; }
  /// Bytes of the largest binding.
  uint64_t max_binding() const { return properties_.limits.maxStorageBufferRange; }

  Pipelines& pipelines() const { return *pipelines_; }

  /// Index of a memory type with all flags of `required`, preferring those of `wanted`; -1 if there is none.
  int memory_type(uint32_t type_bits, VkMemoryPropertyFlags required, VkMemoryPropertyFlags wanted) const;

  Heap& heap() const { return *heap_; }

  Queue& queue() const { return *queue_; }
  /// See Queue; Device::open() gives a fresh one.
  bool lost() const { return queue_->lost(); }
  bool hangs() const { return queue_->hangs(); }

 private:
  Device();
  Status create(VkPhysicalDevice physical, const DeviceInfo& info);
  bool images_share_memory() const;  ///< with buffers for activations

  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  DeviceInfo info_;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  bool unified_ = false, textures_ = false;
  std::unique_ptr<Queue> queue_;
  std::unique_ptr<Heap> heap_;
  std::unique_ptr<Pipelines> pipelines_;
};

}  // namespace smelt::vulkan
