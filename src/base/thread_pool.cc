#include "base/thread_pool.h"

#include <pthreadpool.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>

#include "base/error.h"
#include "base/guard.h"
#include "smelt/options.h"

namespace smelt {
namespace {
thread_local bool inside_parallel = false, alone = false;

int64_t nanoseconds() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What pthreadpool orders between threads ThreadSanitizer does not see, unless it is told.
#ifdef __SANITIZE_THREAD__
void hand_over(void* p) { __tsan_release(p); }
void take_over(void* p) { __tsan_acquire(p); }
#else
void hand_over(void* /*p*/) {}
void take_over(void* /*p*/) {}
#endif

/// Chunk i of [0, n) begins at begin(i).
struct Chunking {
  int64_t n, grain, chunks;
  int64_t unit = 0;  ///< chunks begin at its multiples; 0: at multiples of `grain`

  int64_t begin(int64_t i) const {
    if (i >= chunks) return n;
    return unit == 0 ? i * grain : (n / chunks * i + n % chunks * i / chunks) / unit * unit;
  }
  static Chunking make(int64_t n, int64_t grain, int64_t threads, bool fixed) {
    grain = std::max<int64_t>(grain, 1);
    Chunking c{n, grain, (n - 1) / grain + 1};
    if (fixed) return c;
    // As many for each thread, of about one size: neighbouring operators then share their values likewise, and most of
    // what a thread reads it wrote itself.
    const int64_t chunks = (c.chunks + threads - 1) / threads * threads, unit = std::min<int64_t>(grain & -grain, 64);
    if (n / chunks < 4 * unit && (unit > 1 || n < chunks)) return c;
    c.chunks = chunks;
    c.unit = unit;
    return c;
  }
};

struct Job {
  void (*call)(void*, int64_t, int64_t);
  void* body;
  Chunking chunking;
  std::atomic_flag failed = {};
  std::exception_ptr error;  ///< of the first chunk that threw: exceptions can't pass through pthreadpool's C code
};

void chunk(void* context, size_t index) {
  auto* job = static_cast<Job*>(context);
  take_over(job);
  const bool outer = inside_parallel;
  inside_parallel = true;
  try {
    const auto i = static_cast<int64_t>(index);
    job->call(job->body, job->chunking.begin(i), job->chunking.begin(i + 1));
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

::pthreadpool* ThreadPool::begun() {
  // The first use begins the threads: new ones spin for a while, which a session that needs none should not pay.
  ::pthreadpool* pool = pool_.load(std::memory_order_acquire);
  if (pool || threads_ <= 1) return pool;
  const std::lock_guard lock(making_);
  pool = pool_;
  if (!pool) pool_ = pool = pthreadpool_create(static_cast<size_t>(threads_));
  return pool;
}

bool ThreadPool::near() {
  constexpr int64_t kPause = 10'000'000, kOften = 5'000'000, kSeldom = 160'000'000, kFast = 500;
  const int64_t now = nanoseconds();
  if (threads_ <= 1 || now - rested_ >= kPause) return false;
  if (now < measures_) return near_;
  ::pthreadpool* pool = begun();
  if (!pool) return false;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t round = 0, start = now; round < 6; ++round) {
    pthreadpool_parallelize_1d(
        pool, [](void*, size_t) {}, nullptr, static_cast<size_t>(threads_), 0);
    const int64_t end = nanoseconds();
    least = std::min(least, end - start);
    start = end;
  }
  // To measure wakes the threads: seldom where that was in vain.
  near_ = least < kFast;
  interval_ = near_ ? kOften : std::clamp(2 * interval_, kOften, kSeldom);
  measures_ = now + interval_;
  return near_;
}

void ThreadPool::rest() { rested_ = nanoseconds(); }

ThreadPool::Alone::Alone() : before_(alone) { alone = true; }
ThreadPool::Alone::~Alone() { alone = before_; }

void ThreadPool::run(int64_t n, int64_t grain, void (*call)(void*, int64_t, int64_t), void* body) {
  if (inside_parallel || threads_ <= 1) {
    const int64_t step = chunks_ == Chunks::kAny ? n : std::max<int64_t>(grain, 1);
    for (int64_t begin = 0; begin < n; begin += step) call(body, begin, std::min(begin + step, n));
    return;
  }
  Job job{call, body, Chunking::make(n, grain, threads_, chunks_ == Chunks::kFixed), {}, nullptr};
  if (::pthreadpool* pool = alone ? nullptr : begun()) {
    hand_over(&job);
    pthreadpool_parallelize_1d(pool, chunk, &job, static_cast<size_t>(job.chunking.chunks), 0);
    take_over(&job);
  } else {
    for (int64_t i = 0; i < job.chunking.chunks; ++i) chunk(&job, static_cast<size_t>(i));
  }
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
