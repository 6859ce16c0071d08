#include "onnxifi/event.h"

#include "onnxifi/graph.h"
#include "onnxifi/spin.h"

namespace smelt::onnxifi {

bool Event::signal(onnxStatus status, std::string message) {
  const std::lock_guard lock(mutex_);
  if (signalled_.load(std::memory_order_relaxed)) return false;
  status_ = status;
  message_ = std::move(message);
  signalled_.store(true, std::memory_order_release);
  changed_.notify_all();
  return true;
}

bool Event::wait(std::optional<std::chrono::milliseconds> limit) {
  if (signalled()) return true;
  const auto done = [&] { return signalled_.load(std::memory_order_relaxed); };
  if (!limit) {
    if (const auto graph = runner_.lock()) graph->help(*this);
    if (spin_until([&] { return signalled(); })) return true;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, done);
    return true;
  }
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, *limit, done);
}

void Event::abandon() {
  if (!of_a_run_) signal(ONNXIFI_STATUS_INVALID_EVENT, "the event was released before it was signalled");
}

}  // namespace smelt::onnxifi
