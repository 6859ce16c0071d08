#include "base/workers.h"

#include <algorithm>
#include <chrono>
#include <utility>
#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#endif

namespace smelt {
namespace {

using Clock = std::chrono::steady_clock;

thread_local bool computing = false;

constexpr int kPatience = 64;     ///< looks, about a microsecond, before a thread takes what is another's
constexpr int kManyLooks = 2048;  ///< from here on others may have the processor
constexpr std::chrono::milliseconds kAwake(10);

/// Between two looks at what another thread will write.
void pause_looking(int looks) {
  if (looks >= kManyLooks) std::this_thread::yield();
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr uint64_t counted(uint32_t round, uint32_t count) { return uint64_t{round} << 32 | count; }
constexpr uint32_t round_of(uint64_t counted) { return static_cast<uint32_t>(counted >> 32); }
constexpr uint32_t count_of(uint64_t counted) { return static_cast<uint32_t>(counted); }

}  // namespace

Chunking Chunking::make(int64_t n, int64_t grain, int64_t threads, bool fixed) {
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

Workers::Computing::Computing() : before_(std::exchange(computing, true)) {}
Workers::Computing::~Computing() { computing = before_; }
bool Workers::Computing::here() { return computing; }

Workers::Workers(int threads) : parts_(static_cast<size_t>(threads)) {
  try {
    for (size_t part = 1; part < parts_.size(); ++part) parts_[part].thread = std::thread([this, part] { work(part); });
  } catch (...) {
    stop();
    throw;
  }
}

Workers::~Workers() { stop(); }

void Workers::stop() {
  stopped_ = true;
  run({});
  for (Part& p : parts_)
    if (p.thread.joinable()) p.thread.join();
}

void Workers::compute(const SharedJob& job, int64_t chunk) {
  try {
    job.call(job.body, job.chunking.begin(chunk), job.chunking.begin(chunk + 1));
  } catch (...) {
    if (!failed_.exchange(true)) error_ = std::current_exception();
  }
}

/// Computes chunks of a share until all are taken, and returns how many. A thread that comes late may hold a job that
/// is done: all shares of it are then taken, or of a later round.
uint32_t Workers::take(const SharedJob& job, uint32_t round, size_t part) {
  const auto parts = static_cast<int64_t>(parts_.size()), at = static_cast<int64_t>(part);
  const int64_t all = job.chunking.chunks, first = all * at / parts, count = all * (at + 1) / parts - first;
  std::atomic<uint64_t>& taken = parts_[part].taken;
  uint32_t ran = 0;
  uint64_t seen = taken.load(std::memory_order_relaxed);
  while (true) {
    const auto later = static_cast<int32_t>(round_of(seen) - round);
    const uint32_t next = later == 0 ? count_of(seen) : 0;
    if (later > 0 || next >= count) return ran;
    if (!taken.compare_exchange_weak(seen, counted(round, next + 1), std::memory_order_acq_rel)) continue;
    compute(job, first + next);
    ++ran;
    seen = counted(round, next + 1);
  }
}

uint32_t Workers::take_from_others(const SharedJob& job, uint32_t round, size_t part) {
  uint32_t ran = 0;
  for (size_t i = 1; i < parts_.size(); ++i) ran += take(job, round, (part + i) % parts_.size());
  return ran;
}

/// own: chunks that the caller of run() ran.
bool Workers::everything_done(const SharedJob& job, uint32_t round, uint32_t own) const {
  int64_t ran = own;
  for (size_t part = 1; part < parts_.size(); ++part) {
    const uint64_t done = parts_[part].done.load(std::memory_order_acquire);
    if (round_of(done) == round) ran += count_of(done);
  }
  return ran == job.chunking.chunks;
}

void Workers::begin_round() {
  ++round_;
  if (static_cast<uint32_t>(round_) != 0) return;
  // What the rounds before are called is used again.
  for (Part& p : parts_) p.taken = p.done = 0;
}

void Workers::run(const SharedJob& job) {
  const std::lock_guard lock(running_);
  const Computing here;
  begin_round();
  const auto round = static_cast<uint32_t>(round_);
  Posted& to = posted(round_);
  to.call.store(job.call, std::memory_order_relaxed);
  to.body.store(job.body, std::memory_order_relaxed);
  to.n.store(job.chunking.n, std::memory_order_relaxed);
  to.grain.store(job.chunking.grain, std::memory_order_relaxed);
  to.chunks.store(job.chunking.chunks, std::memory_order_relaxed);
  to.unit.store(job.chunking.unit, std::memory_order_relaxed);
  to.round.store(round_, std::memory_order_seq_cst);
  if (asleep_.load(std::memory_order_seq_cst) > 0) {
    { const std::lock_guard sleeping(sleeping_); }
    wake_.notify_all();
  }
  uint32_t own = take(job, round, 0);
  for (int looks = 1; !everything_done(job, round, own); ++looks) {
    pause_looking(looks);
    if (looks % kPatience == 0) own += take_from_others(job, round, 0);
    if (looks == 2 * kManyLooks) looks = kManyLooks;
  }
  if (failed_.load(std::memory_order_relaxed)) {
    failed_ = false;
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

/// The job of a round; false if a later one has been posted, which is read in its place.
bool Workers::read(uint64_t round, SharedJob& job) {
  const Posted& from = posted(round);
  job.call = from.call.load(std::memory_order_acquire);
  job.body = from.body.load(std::memory_order_acquire);
  job.chunking = {from.n.load(std::memory_order_acquire), from.grain.load(std::memory_order_acquire),
                  from.chunks.load(std::memory_order_acquire), from.unit.load(std::memory_order_acquire)};
  // The round after the next is written here only after the next was posted there.
  return posted(round + 1).round.load(std::memory_order_acquire) < round;
}

/// A round after `seen`, as soon as there is one.
uint64_t Workers::wait_for_job(uint64_t seen) {
  const std::atomic<uint64_t>& next = posted(seen + 1).round;
  const auto is_there = [&] { return next.load(std::memory_order_seq_cst) > seen; };
  Clock::time_point since{};
  for (int looks = 1; !is_there(); ++looks) {
    pause_looking(looks);
    if (looks < 2 * kManyLooks) continue;
    looks = kManyLooks;
    const auto now = Clock::now();
    if (since == Clock::time_point{}) since = now;
    if (now - since < kAwake) continue;
    std::unique_lock lock(sleeping_);
    ++asleep_;
    wake_.wait(lock, is_there);
    --asleep_;
  }
  return next.load(std::memory_order_acquire);
}

void Workers::help(uint64_t posted_round, size_t part) {
  SharedJob job;
  if (!read(posted_round, job)) return;
  const auto round = static_cast<uint32_t>(posted_round);
  std::atomic<uint64_t>& done = parts_[part].done;
  uint32_t ran = take(job, round, part);
  if (ran > 0) done.store(counted(round, ran), std::memory_order_release);
  const std::atomic<uint64_t>& next = posted(posted_round + 1).round;
  for (int looks = 0; looks < kPatience; ++looks) {
    if (next.load(std::memory_order_relaxed) > posted_round) return;
    pause_looking(0);
  }
  if (const uint32_t more = take_from_others(job, round, part))
    done.store(counted(round, ran + more), std::memory_order_release);
}

void Workers::work(size_t part) {
  const Computing here;
  for (uint64_t seen = 0;;) {
    seen = wait_for_job(seen);
    if (stopped_) return;
    help(seen, part);
  }
}

}  // namespace smelt
