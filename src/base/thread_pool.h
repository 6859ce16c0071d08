#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

struct pthreadpool;

namespace smelt {

/// Splits index ranges among threads. Callers on several threads take turns; nested calls run on the calling thread.
class ThreadPool {
 public:
  enum class Chunks : uint8_t {
    kAny,    ///< as few as suit the number of threads
    kFixed,  ///< of exactly `grain` indices but the last, for every number of threads
  };
  explicit ThreadPool(int threads, Chunks chunks = Chunks::kAny);  ///< <= 1: everything runs on the caller
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  int threads() const { return threads_; }

  /// Calls body(begin, end) for chunks of about `grain` indices that cover [0, n), on several threads; returns when all
  /// are done. Allocates nothing. Rethrows an exception of `body`.
  template <class F>
  void parallel_for(int64_t n, int64_t grain, F&& body) {
    if (n <= 0) return;
    if (n <= grain || (threads_ <= 1 && chunks_ == Chunks::kAny)) {
      body(int64_t{0}, n);
      return;
    }
    run(
        n, grain, [](void* f, int64_t b, int64_t e) { (*static_cast<std::remove_reference_t<F>*>(f))(b, e); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  void run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* body);
  int threads_;
  Chunks chunks_;
  std::mutex making_;
  std::atomic<::pthreadpool*> pool_ = nullptr;
};

}  // namespace smelt
