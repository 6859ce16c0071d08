#include "onnxifi/event.h"

#include "onnxifi/spin.h"

namespace smelt::onnxifi {

bool Event::signal(onnxStatus status, std::string message) {
  {
    const std::lock_guard lock(mutex_);
    if (signalled_.load(std::memory_order_relaxed)) return false;
    status_ = status;
    message_ = std::move(message);
    signalled_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  return true;
}

bool Event::wait(std::optional<std::chrono::milliseconds> limit) {
  if (spin_until([&] { return signalled(); })) return true;
  std::unique_lock lock(mutex_);
  const auto done = [&] { return signalled_.load(std::memory_order_relaxed); };
  if (!limit) {
    changed_.wait(lock, done);
    return true;
  }
  return changed_.wait_for(lock, *limit, done);
}

}  // namespace smelt::onnxifi
