#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <type_traits>

#include "base/workers.h"

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

  /// True while the threads meet so fast that sharing work of a microsecond gains, as on processors that share a cache.
  /// The host of a virtual machine moves its processors, so empty jobs measure it now and then. False after a pause,
  /// which may have put the threads to sleep: at the first call, and where rest() was called 10 ms ago or earlier.
  bool near();
  void rest();  ///< nothing will be shared until the next call of near()

  /// While one lives, pools run what this thread gives them on this thread, in the chunks that several would take.
  class Alone {
   public:
    Alone();
    ~Alone();
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    bool before_;
  };

 private:
  void run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* body);
  Workers* begun();  ///< null: the system gives no threads
  int threads_;
  Chunks chunks_;
  std::mutex making_;
  std::unique_ptr<Workers> workers_;
  std::atomic<Workers*> begun_ = nullptr;  ///< workers_, once they are there
  std::atomic<bool> near_ = false;
  std::atomic<int64_t> rested_ = 0, measures_ = 0, interval_ = 0;  ///< nanoseconds: of rest(), of the next measurement
};

}  // namespace smelt
