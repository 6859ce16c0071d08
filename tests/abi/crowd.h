#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace abi {

/// Threads that run checks side by side. What the first of them throws is thrown by join().
class Crowd {
 public:
  /// Thread i of `count` calls body(i).
  Crowd(int count, std::function<void(int)> body) : body_(std::move(body)) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this, i] {
        try {
          body_(i);
        } catch (...) {
          const std::lock_guard lock(mutex_);
          if (!failure_) failure_ = std::current_exception();
        }
      });
  }
  ~Crowd() { wait(); }
  Crowd(const Crowd&) = delete;
  Crowd& operator=(const Crowd&) = delete;
  void join() {
    wait();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void wait() {
    for (std::thread& t : threads_)
      if (t.joinable()) t.join();
  }
  std::function<void(int)> body_;
  std::mutex mutex_;
  std::exception_ptr failure_;
  std::vector<std::thread> threads_;
};

/// Each of `threads` threads calls body(round) for every round from 0.
inline void hammer(int threads, int rounds, const std::function<void(int)>& body) {
  Crowd(threads, [&](int) {
    for (int round = 0; round < rounds; ++round) body(round);
  }).join();
}

}  // namespace abi
