#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/vulkan/device/vk.h"

namespace smelt::vulkan {

/// A device's queue, which sessions share: work is submitted and waited for. One timeline semaphore counts all work;
/// devices without wait for fences, which are reused. Thread-safe.
class Queue {
 public:
  static Result<std::unique_ptr<Queue>> make(VkDevice device, uint32_t family, bool timeline);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  /// Submits and waits. `tick` is asked every 50 ms; its error is returned once the device is done with the work or,
  /// after some patience, with the device given up as lost.
  Status run(VkCommandBuffer commands, const std::function<Status()>& tick);
  /// Every later run() fails.
  bool lost() const { return lost_; }
  /// Lost with work that may still go on: what that uses must stay until the process ends.
  bool hangs() const { return hangs_; }
  /// For tests of that, whose work did end.
  void forget_hang() { hangs_ = false; }
  /// How long work may go on after its tick asked to stop.
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }

 private:
  /// What the end of one submission shows: the semaphore at a value, or a fence.
  struct Signal {
    uint64_t value = 0;
    VkFence fence = VK_NULL_HANDLE;
  };
  explicit Queue(VkDevice device) : device_(device) {}
  VkResult take_fence(VkFence* fence);
  Status submit(VkCommandBuffer commands, Signal& signal);
  Status finish(const Signal& signal, const std::function<Status()>& tick);
  /// For 50 ms at most.
  VkResult wait(const Signal& signal) const;
  const char* wait_call() const { return timeline_ ? "vkWaitSemaphores" : "vkWaitForFences"; }

  VkDevice device_;
  VkQueue queue_ = VK_NULL_HANDLE;
  std::mutex mutex_;
  VkSemaphore timeline_ = VK_NULL_HANDLE;  ///< null: fences
  uint64_t submitted_ = 0;                 ///< value of the last submission
  std::vector<VkFence> fences_;            ///< that nobody waits for
  std::atomic<bool> lost_ = false, hangs_ = false;
  std::chrono::milliseconds patience_{10'000};
};

}  // namespace smelt::vulkan
