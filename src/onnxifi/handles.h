#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace smelt::onnxifi {

/// A handle that no object of any kind had before.
inline void* next_handle() {
  static std::atomic<uintptr_t> counter{0x1000};
  return reinterpret_cast<void*>(counter.fetch_add(0x10));
}

/// Live objects of one kind by handle. Handles are numbers that are never used twice, so a released or foreign handle
/// is told without looking at memory.
template <class T>
class Handles {
 public:
  void* add(std::shared_ptr<T> object) {
    const std::lock_guard lock(mutex_);
    void* handle = next_handle();
    live_.emplace(handle, std::move(object));
    return handle;
  }
  /// Null when the handle is not of a live object.
  std::shared_ptr<T> find(void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(handle);
    return it == live_.end() ? nullptr : it->second;
  }
  std::shared_ptr<T> remove(void* handle) {
    const std::lock_guard lock(mutex_);
    const auto it = live_.find(handle);
    if (it == live_.end()) return nullptr;
    auto object = std::move(it->second);
    live_.erase(it);
    return object;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_map<void*, std::shared_ptr<T>> live_;
};

}  // namespace smelt::onnxifi
