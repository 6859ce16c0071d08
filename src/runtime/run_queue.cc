#include "runtime/run_queue.h"

#include <utility>

namespace smelt {

RunQueue::~RunQueue() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void RunQueue::add(Job job) {
  const std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void RunQueue::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_one();
}

void RunQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    const Outcome outcome = stopped_ ? Outcome::kCancelled : Outcome::kRun;
    lock.unlock();
    job(outcome);
    lock.lock();
  }
}

}  // namespace smelt
