#include "base/thread_pool.h"

#include <pthreadpool.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <atomic>
#include <exception>
#include <type_traits>

#include "base/error.h"
#include "base/guard.h"
#include "smelt/options.h"

namespace smelt {
namespace {
thread_local bool inside_parallel = false;

// What pthreadpool orders between threads ThreadSanitizer does not see, unless it is told.
#ifdef __SANITIZE_THREAD__
void hand_over(void* p) { __tsan_release(p); }
void take_over(void* p) { __tsan_acquire(p); }
#else
void hand_over(void* /*p*/) {}
void take_over(void* /*p*/) {}
#endif

struct Job {
  void (*call)(void*, int64_t, int64_t);
  void* body;
  std::atomic_flag failed = {};
  std::exception_ptr error;  ///< of the first chunk that threw: exceptions can't pass through pthreadpool's C code
};

void tile(void* context, size_t start, size_t count) {
  auto* job = static_cast<Job*>(context);
  take_over(job);
  const bool outer = inside_parallel;
  inside_parallel = true;
  try {
    job->call(job->body, static_cast<int64_t>(start), static_cast<int64_t>(start + count));
  } catch (...) {
    if (!job->failed.test_and_set()) job->error = std::current_exception();
  }
  inside_parallel = outer;
  hand_over(job);
}
}  // namespace

ThreadPool::ThreadPool(int threads, Chunks chunks) : threads_(std::max(threads, 1)), chunks_(chunks) {}

ThreadPool::~ThreadPool() {
  if (::pthreadpool* pool = pool_) pthreadpool_destroy(pool);
}

void ThreadPool::run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* body) {
  // The first use begins the threads: new ones spin for a while, which a session that needs none should not pay.
  ::pthreadpool* pool = pool_.load(std::memory_order_acquire);
  if (!inside_parallel && !pool && threads_ > 1) {
    const std::lock_guard lock(making_);
    pool = pool_;
    if (!pool) pool_ = pool = pthreadpool_create(static_cast<size_t>(threads_));
  }
  if (inside_parallel || !pool) {
    const int64_t step = chunks_ == Chunks::kAny ? n : std::max<int64_t>(grain, 1);
    for (int64_t begin = 0; begin < n; begin += step) call(body, begin, std::min(begin + step, n));
    return;
  }
  Job job{call, body, {}, nullptr};
  hand_over(&job);
  pthreadpool_parallelize_1d_tile_1d(pool, tile, &job, static_cast<size_t>(n),
                                     static_cast<size_t>(std::max<int64_t>(grain, 1)), 0);
  take_over(&job);
  if (job.error) std::rethrow_exception(job.error);
}

Result<std::shared_ptr<ThreadPool>> make_thread_pool(int threads) {
  return guarded([&]() -> Result<std::shared_ptr<ThreadPool>> {
    if (threads < 1 || threads > SessionOptions::kMaxThreads)
      return InvalidInput("a pool of ", threads, " threads, 1 to ", SessionOptions::kMaxThreads, " expected");
    return std::make_shared<ThreadPool>(threads);
  });
}

}  // namespace smelt
