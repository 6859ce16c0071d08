#pragma once

#include <onnxifi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace smelt::onnxifi {

class Graph;

/// A single-shot event. A run signals its output event with the run's status.
class Event {
 public:
  Event() = default;
  /// The output event of a run of a graph.
  explicit Event(std::weak_ptr<Graph> runner) : of_a_run_(true), runner_(std::move(runner)) {}

  /// False when it is signalled already.
  bool signal(onnxStatus status = ONNXIFI_STATUS_SUCCESS, std::string message = "");
  bool signalled() const { return signalled_.load(std::memory_order_acquire); }
  /// Blocks until signalled, or until the time is over; whether it is signalled. Without a limit, the calling thread
  /// runs what the event waits for when no other thread has begun it.
  bool wait(std::optional<std::chrono::milliseconds> limit = std::nullopt);
  /// The handle is released: nobody can signal a caller's event any more, so whoever waits for it gets a failure.
  void abandon();
  /// Status of the run that signalled it. Precondition: signalled().
  onnxStatus status() const { return status_; }
  const std::string& message() const { return message_; }

 private:
  std::atomic<bool> signalled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  onnxStatus status_ = ONNXIFI_STATUS_SUCCESS;
  std::string message_;
  const bool of_a_run_ = false;
  const std::weak_ptr<Graph> runner_{};
};

}  // namespace smelt::onnxifi
