#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/guard.h"
#include "smelt/options.h"

namespace smelt {
namespace {
thread_local bool alone = false;

int64_t nanoseconds() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

ThreadPool::ThreadPool(int threads, Chunks chunks) : threads_(std::max(threads, 1)), chunks_(chunks) {}

ThreadPool::~ThreadPool() = default;

Workers* ThreadPool::begun() {
  // The first use begins the threads: new ones look for work for a while, which a session that needs none should not
  // pay.
  if (Workers* workers = begun_.load(std::memory_order_acquire)) return workers;
  const std::lock_guard lock(making_);
  if (!workers_) {
    try {
      workers_ = std::make_unique<Workers>(threads_);
    } catch (const std::system_error&) {
      return nullptr;  // the system gives no more threads
    }
    begun_ = workers_.get();
  }
  return workers_.get();
}

bool ThreadPool::near() {
  constexpr int64_t kPause = 10'000'000, kOften = 5'000'000, kSeldom = 160'000'000, kFast = 250;
  const int64_t now = nanoseconds();
  if (threads_ <= 1 || now - rested_ >= kPause) return false;
  if (now < measures_) return near_;
  Workers* workers = begun();
  if (!workers) return false;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int64_t round = 0, start = now; round < 6; ++round) {
    workers->run({[](void*, int64_t, int64_t) {}, nullptr, {threads_, 1, threads_}});
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
  if (Workers::Computing::here() || threads_ <= 1) {
    const int64_t step = chunks_ == Chunks::kAny ? n : std::max<int64_t>(grain, 1);
    for (int64_t begin = 0; begin < n; begin += step) call(body, begin, std::min(begin + step, n));
    return;
  }
  const SharedJob job{call, body, Chunking::make(n, grain, threads_, chunks_ == Chunks::kFixed)};
  Workers* workers = alone || job.chunking.chunks >= INT32_MAX ? nullptr : begun();
  if (workers) return workers->run(job);
  const Workers::Computing here;
  for (int64_t i = 0; i < job.chunking.chunks; ++i) call(body, job.chunking.begin(i), job.chunking.begin(i + 1));
}

Result<std::shared_ptr<ThreadPool>> make_thread_pool(int threads) {
  return guarded([&]() -> Result<std::shared_ptr<ThreadPool>> {
    if (threads < 1 || threads > SessionOptions::kMaxThreads)
      return InvalidInput("a pool of ", threads, " threads, 1 to ", SessionOptions::kMaxThreads, " expected");
    return std::make_shared<ThreadPool>(threads);
  });
}

}  // namespace smelt
