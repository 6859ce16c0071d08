#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace smelt {

/// A thread that runs jobs one after another. It begins with the first job.
class RunQueue {
 public:
  enum class Outcome { kRun, kCancelled };
  using Job = std::function<void(Outcome)>;

  RunQueue() = default;
  /// Waits for the job that runs. Those that wait are called with Outcome::kCancelled.
  ~RunQueue();
  RunQueue(const RunQueue&) = delete;
  RunQueue& operator=(const RunQueue&) = delete;
  void add(Job job);
  /// No job that waits runs any more.
  void stop();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace smelt
