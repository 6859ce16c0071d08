#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "smelt/tensor.h"
#include "vulkan/backend.h"
#include "vulkan/vk.h"

namespace smelt::vulkan {

class Heap;

/// One row of shaders.inc with its code, made at build time.
struct Shader {
  const char* name;
  uint32_t bindings;  ///< storage buffers, bound in order from 0
  const uint32_t* code;
  const uint32_t* code_end;
};
/// Null when there is no shader of that name.
const Shader* find_shader(const char* name);
std::span<const Shader> all_shaders();

/// Where a pipeline's resources lie.
struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
};

/// Bytes of push constants that every pipeline layout declares: the least that Vulkan promises.
inline constexpr uint32_t kPushBytes = 128;

/// An opened device: one compute queue, pipelines, and a pipeline cache on disk. Thread-safe.
class Device {
 public:
  static Result<std::shared_ptr<Device>> open(int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  VkDevice handle() const { return device_; }
  VkPhysicalDevice physical() const { return physical_; }
  uint32_t queue_family() const { return family_; }
  const DeviceInfo& info() const { return info_; }
  const VkPhysicalDeviceLimits& limits() const { return properties_.limits; }
  /// Activations lie in memory that the host maps, cached.
  bool unified() const { return unified_; }
  /// Whether shaders can load and store elements of this type (64-bit integers as pairs of words).
  bool stores(DType dtype) const;
  /// Largest tensor that one binding reaches.
  uint64_t max_binding() const { return properties_.limits.maxStorageBufferRange; }

  /// The pipeline of a shader with specialization constants 0, 1, 2, ... = `constants`; made once.
  Result<Pipeline> pipeline(const Shader& shader, std::span<const uint32_t> constants);

  /// Memory type with all flags of `required`, preferring those of `wanted`; -1: none.
  int memory_type(uint32_t type_bits, VkMemoryPropertyFlags required, VkMemoryPropertyFlags wanted) const;

  Heap& heap() const { return *heap_; }

  /// Submits and waits for `fence`. `tick` is asked every 50 ms; its error is returned once the device is done with the
  /// work or, after ten seconds more, with the device given up as lost.
  Status submit(VkCommandBuffer commands, VkFence fence, const std::function<Status()>& tick);
  bool lost() const { return lost_; }
  /// Writes the pipeline cache to disk when pipelines were made since.
  void save_cache();

 private:
  Device();
  Status create(VkPhysicalDevice physical, const DeviceInfo& info);
  Result<VkDescriptorSetLayout> set_layout(uint32_t bindings);
  Result<VkPipelineLayout> pipeline_layout(uint32_t bindings);
  std::string cache_path() const;
  void load_cache();

  VkPhysicalDevice physical_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
  VkQueue queue_ = VK_NULL_HANDLE;
  uint32_t family_ = 0;
  DeviceInfo info_;
  VkPhysicalDeviceProperties properties_{};
  VkPhysicalDeviceMemoryProperties memory_{};
  bool unified_ = false, lost_ = false;
  std::unique_ptr<Heap> heap_;
  std::mutex queue_mutex_, pipeline_mutex_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  bool cache_grew_ = false;
  std::map<uint32_t, VkDescriptorSetLayout> set_layouts_;
  std::map<uint32_t, VkPipelineLayout> pipeline_layouts_;
  std::map<std::pair<const Shader*, std::vector<uint32_t>>, VkPipeline> pipelines_;
};

}  // namespace smelt::vulkan
