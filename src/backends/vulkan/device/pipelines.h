#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/vulkan/device/vk.h"

namespace smelt::vulkan {

/// One row of shaders.inc with its code, made at build time.
struct Shader {
  const char* name;
  const char* kinds;  ///< of the bindings from 0: b, a buffer; r, an image that is read; w, one that is written
  const uint32_t* code;
  const uint32_t* code_end;
  std::span<const uint32_t> words() const { return {code, code_end}; }
};
/// Null when there is no shader of that name.
const Shader* find_shader(const char* name);
std::span<const Shader> all_shaders();

/// Of a binding of that kind.
VkDescriptorType descriptor_type(char kind);

/// Where a pipeline's resources lie.
struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;  ///< for sets, or for descriptors that are pushed
};

/// Bytes of push constants that every pipeline layout declares: the least that Vulkan promises.
inline constexpr uint32_t kPushBytes = 128;

/// A device's pipelines, each made once, and their cache on disk. Thread-safe.
class Pipelines {
 public:
  Pipelines(VkDevice device, const VkPhysicalDeviceProperties& properties, bool push_descriptors);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  /// Has the pipeline made on a thread of its own, of up to `threads` in all, while the caller goes on. Constants are
  /// specialization constants 0, 1, 2, ...
  void request(const Shader& shader, std::span<const uint32_t> constants, int threads);
  /// The pipeline, once it is made; made here if nobody has begun.
  Result<Pipeline> get(const Shader& shader, std::span<const uint32_t> constants);
  /// Names of those that pipelines were asked of.
  std::set<std::string> shaders();
  /// Writes the cache to disk when pipelines were made since.
  void save();
  /// Returns once what was asked for is made and no thread is at it. For tests that change what threads read.
  void settle();
  /// The threads end; what exists is left to the process. For a device that was lost.
  void abandon();

 private:
  using Key = std::pair<const Shader*, std::vector<uint32_t>>;
  struct Entry {
    enum class State : uint8_t { kAsked, kBegun, kMade };
    State state = State::kAsked;
    VkResult result = VK_NOT_READY;
    VkPipeline handle = VK_NULL_HANDLE;
  };
  struct Layout {
    VkDescriptorSetLayout set = VK_NULL_HANDLE;
    VkPipelineLayout pipeline = VK_NULL_HANDLE;
  };
  Result<Layout> layout(const std::string& kinds);
  VkResult create(const Key& key, VkPipelineLayout layout, VkPipeline* out) const;
  /// Makes the entry's pipeline with the lock released meanwhile.
  void make(std::unique_lock<std::mutex>& lock, const Key& key, Entry& entry);
  /// The same for the next one that was asked for and not begun; false: none is left.
  bool make_next(std::unique_lock<std::mutex>& lock);
  void work();
  void end_threads();

  VkDevice device_;
  bool push_descriptors_;
  std::string path_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  std::condition_variable asked_, made_;
  bool grew_ = false, ending_ = false;
  int making_ = 0;
  std::map<std::string, Layout> layouts_;  ///< by Shader::kinds
  std::map<Key, Entry> entries_;           ///< never erased: references stay
  std::deque<const std::pair<const Key, Entry>*> queue_;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
};

}  // namespace smelt::vulkan
