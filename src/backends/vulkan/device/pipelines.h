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

/// A variant of a compute shader with its SPIR-V code, embedded at build time (codegen/shaders.py).
struct ShaderFile;

struct Shader {
  const char* name;
  const char* kinds;    ///< of the bindings from 0: b, a buffer; r, an image that is read; w, one that is written
  uint32_t push_bytes;  ///< size of its push constants
  uint32_t constants;   ///< specialization constants: ids are below
  ShaderFile& file;     ///< where it comes from
  size_t index;         ///< in the file
  /// Its SPIR-V, which stays as long as the process. Throws std::bad_alloc.
  std::span<const uint32_t> words() const;
};
/// Null when there is no shader of that name.
const Shader* find_shader(const char* name);
std::span<const Shader> all_shaders();

/// The descriptor type of a binding of that kind (Shader::kinds).
VkDescriptorType descriptor_type(char kind);

/// A pipeline with its layouts.
struct Pipeline {
  VkPipeline handle = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;  ///< for sets, or for descriptors that are pushed
};

/// Bytes of push constants that every pipeline layout declares: the minimum that Vulkan guarantees.
inline constexpr uint32_t kPushBytes = 128;

/// A device's pipelines, each made once, and their cache on disk. Thread-safe.
class Pipelines {
 public:
  Pipelines(VkDevice device, const VkPhysicalDeviceProperties& properties, bool push_descriptors);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  /// Requests a pipeline, which one of up to `threads` background threads creates. `constants` are the specialization
  /// constants 0, 1, 2, ...
  void request(const Shader& shader, std::span<const uint32_t> constants, int threads);
  /// The pipeline: waits for a thread that is creating it, or creates it if none has begun.
  Result<Pipeline> get(const Shader& shader, std::span<const uint32_t> constants);
  /// Names of the shaders that pipelines were requested of.
  std::set<std::string> shaders();
  /// Writes the cache to disk if it grew since the last save.
  void save();
  /// Waits until all requested pipelines exist and the threads are idle. For tests that change what threads read.
  void settle();
  /// Ends the threads and leaks all objects. For a lost device.
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
  /// Creates the entry's pipeline; the lock is released meanwhile.
  void make(std::unique_lock<std::mutex>& lock, const Key& key, Entry& entry);
  /// Creates the next requested pipeline that no thread has begun; false if there is none.
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
