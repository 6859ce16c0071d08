#pragma once

#include <onnxifi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

namespace smelt::onnxifi {

/// A single-shot event. A run signals its output event with the run's status.
class Event {
 public:
  /// False when it is signalled already.
  bool signal(onnxStatus status = ONNXIFI_STATUS_SUCCESS, std::string message = "");
  bool signalled() const { return signalled_.load(std::memory_order_acquire); }
  /// Blocks until signalled, or until the time is over; whether it is signalled.
  bool wait(std::optional<std::chrono::milliseconds> limit = std::nullopt);
  /// Status of the run that signalled it. Precondition: signalled().
  onnxStatus status() const { return status_; }
  const std::string& message() const { return message_; }

 private:
  std::atomic<bool> signalled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  onnxStatus status_ = ONNXIFI_STATUS_SUCCESS;
  std::string message_;
};

}  // namespace smelt::onnxifi
