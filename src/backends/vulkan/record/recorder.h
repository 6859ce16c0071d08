#pragma once

#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

#include "backends/vulkan/codegen/interface.h"
#include "backends/vulkan/device/memory.h"

namespace smelt::vulkan {

/// Workgroups of a dispatch.
struct Grid {
  uint32_t x = 1, y = 1, z = 1;
  /// Workgroups for `items` of work, `size` a group, within Vulkan's promised 65535 a dimension; shaders find their
  /// place with flat_id() or flat_group() of common.glsl.
  static Grid flat(uint64_t items, uint32_t size) {
    const uint64_t groups = (items + size - 1) / size;
    const auto x = static_cast<uint32_t>(groups < 32768 ? groups : 32768);
    return {x, static_cast<uint32_t>(x ? (groups + x - 1) / x : 0), 1};
  }
};

/// Records dispatches and copies into a command buffer and puts a barrier wherever one depends on another. Until end()
/// they are only noted, while `threads` threads make the pipelines.
class Recorder {
 public:
  explicit Recorder(std::shared_ptr<Device> device, int threads = 1) : device_(std::move(device)), threads_(threads) {}
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Runs a variant of a shader; its interface checks the constants and the number of bindings.
  template <class Interface, size_t N>
  Status run(shaders::Variant<Interface> shader, const typename Interface::Constants& constants,
             const Binding (&bindings)[N], const Grid& grid, const typename Interface::Push& push) {
    static_assert(N >= Interface::kMinBindings && N <= Interface::kMaxBindings);
    return run(shader, constants, std::span<const Binding>(bindings), grid, push);
  }
  /// Runs a variant with bindings whose number is only known now.
  template <class Interface>
  Status run(shaders::Variant<Interface> shader, const typename Interface::Constants& constants,
             std::span<const Binding> bindings, const Grid& grid, const typename Interface::Push& push) {
    return dispatch(*shader, constants.to_words(), bindings, grid, &push, sizeof(push));
  }
  Status dispatch(const Shader& shader, std::span<const uint32_t> constants, std::span<const Binding> bindings,
                  const Grid& grid, const void* push, size_t push_bytes);
  /// Gives images the memory that others used before: whatever it holds is lost. All their later uses need this first.
  void start(std::span<const Binding> images);
  void copy(const Binding& from, const Binding& to);
  void fill(const Binding& to, uint32_t word);
  /// Writes a timestamp once all earlier work is done.
  void mark() { work_.emplace_back().kind = Work::Kind::kMark; }
  /// Makes the command buffer, at its end everything visible to the host.
  Status end();
  /// After end(): runs what is recorded and waits; see Queue::run. Any number of times.
  Status run(const std::function<Status()>& tick = nullptr) { return device_->queue().run(commands_, tick); }
  Device& device() const { return *device_; }
  const std::shared_ptr<Device>& share_device() const { return device_; }
  /// Nanoseconds between mark i and mark i + 1, after a run.
  Result<std::vector<double>> intervals() const;
  size_t dispatches() const { return dispatches_; }

 private:
  struct Work {
    enum class Kind : uint8_t { kDispatch, kStart, kCopy, kFill, kMark };
    Kind kind = Kind::kMark;
    const Shader* shader = nullptr;
    std::vector<uint32_t> constants, push;
    std::vector<Binding> buffers;  ///< of a copy: from, to
    uint32_t x = 0, y = 0, z = 0;
    uint32_t word = 0;  ///< kFill
  };
  Status make_objects();
  /// Puts a barrier if one of `touched` conflicts with what was recorded since the last one.
  void order(std::span<const Binding> touched, VkPipelineStageFlags stage);
  void barrier(std::span<const VkImageMemoryBarrier> images);
  void emit_start(std::span<const Binding> images);
  Status emit(const Work& w);
  Status make_descriptor_pool();
  Status bind(const Pipeline& pipeline, const char* kinds, std::span<const Binding> bindings);

  std::shared_ptr<Device> device_;
  int threads_;
  std::vector<Work> work_;  ///< until end()
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptor_pool_ = VK_NULL_HANDLE;  ///< null where descriptors are pushed
  VkQueryPool queries_ = VK_NULL_HANDLE;
  uint32_t marks_ = 0;
  std::vector<Binding> reads_, writes_;  ///< since the last barrier
  VkPipelineStageFlags stages_ = 0;      ///< that touched them
  VkPipeline bound_ = VK_NULL_HANDLE;
  size_t dispatches_ = 0;
};

}  // namespace smelt::vulkan
