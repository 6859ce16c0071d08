#include "backends/vulkan/device/queue.h"

namespace smelt::vulkan {
namespace {
constexpr uint64_t kTickNanoseconds = 50'000'000;
}

Result<std::unique_ptr<Queue>> Queue::make(VkDevice device, uint32_t family, bool timeline) {
  std::unique_ptr<Queue> queue(new Queue(device));
  vkGetDeviceQueue(device, family, 0, &queue->queue_);
  if (timeline) {
    VkSemaphoreTypeCreateInfo type{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
    type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
    VkSemaphoreCreateInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
    info.pNext = &type;
    SMELT_TRY(check(vkCreateSemaphore(device, &info, nullptr, &queue->timeline_), "vkCreateSemaphore"));
  }
  return queue;
}

Queue::~Queue() {
  if (hangs_) return;
  vkDestroySemaphore(device_, timeline_, nullptr);
  for (VkFence fence : fences_) vkDestroyFence(device_, fence, nullptr);
}

VkResult Queue::take_fence(VkFence* fence) {
  if (!fences_.empty()) {
    *fence = fences_.back();
    fences_.pop_back();
    return VK_SUCCESS;
  }
  const VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  return vkCreateFence(device_, &info, nullptr, fence);
}

Status Queue::submit(VkCommandBuffer commands, Signal& signal) {
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  VkTimelineSemaphoreSubmitInfo values{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
  const std::lock_guard lock(mutex_);
  if (timeline_) {
    signal.value = submitted_ + 1;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &signal.value;
    info.pNext = &values;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &timeline_;
  } else {
    SMELT_TRY(check(take_fence(&signal.fence), "vkCreateFence"));
  }
  Status status = check(vkQueueSubmit(queue_, 1, &info, signal.fence), "vkQueueSubmit");
  if (status.ok()) {
    submitted_ = signal.value;
    return status;
  }
  // Without memory nothing was submitted; any other fault is the device's end.
  if (signal.fence) fences_.push_back(signal.fence);
  lost_ = lost_ || status.error().code() == ErrorCode::kDevice;
  return status;
}

VkResult Queue::wait(const Signal& signal) const {
  if (!timeline_) return vkWaitForFences(device_, 1, &signal.fence, VK_TRUE, kTickNanoseconds);
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &signal.value;
  return vkWaitSemaphores(device_, &info, kTickNanoseconds);
}

Status Queue::finish(const Signal& signal, const std::function<Status()>& tick) {
  using Clock = std::chrono::steady_clock;
  Status asked;
  Clock::time_point give_up{};
  VkResult result;
  while ((result = wait(signal)) != VK_SUCCESS) {
    if (result == VK_TIMEOUT && asked.ok()) {
      asked = tick ? tick() : Ok();
      if (!asked.ok()) give_up = Clock::now() + patience_;
    } else if (result != VK_TIMEOUT || Clock::now() > give_up) {
      lost_ = true;
      hangs_ = result != VK_ERROR_DEVICE_LOST;
      if (result == VK_TIMEOUT) return Error(ErrorCode::kDevice, "the Vulkan device does not finish its work");
      return Error(ErrorCode::kDevice, Cat(wait_call(), ": ", to_string(result)));
    }
  }
  return asked;
}

Status Queue::run(VkCommandBuffer commands, const std::function<Status()>& tick) {
  if (lost_) return Error(ErrorCode::kDevice, "the Vulkan device was lost");
  Signal signal;
  SMELT_TRY(submit(commands, signal));
  Status status = finish(signal, tick);
  if (signal.fence && !hangs_) {
    const std::lock_guard lock(mutex_);
    if (vkResetFences(device_, 1, &signal.fence) == VK_SUCCESS)
      fences_.push_back(signal.fence);
    else
      vkDestroyFence(device_, signal.fence, nullptr);
  }
  return status;
}

}  // namespace smelt::vulkan
