#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace smelt {

/// Chunk i of [0, n) begins at begin(i).
struct Chunking {
  int64_t n = 0, grain = 1, chunks = 0;
  int64_t unit = 0;  ///< chunks begin at its multiples; 0: at multiples of `grain`

  int64_t begin(int64_t i) const {
    if (i >= chunks) return n;
    return unit == 0 ? i * grain : (n / chunks * i + n % chunks * i / chunks) / unit * unit;
  }
  /// fixed: of exactly `grain` for every number of threads.
  static Chunking make(int64_t n, int64_t grain, int64_t threads, bool fixed);
};

/// What threads share: chunks, each of which one of them computes.
struct SharedJob {
  void (*call)(void* body, int64_t begin, int64_t end) = nullptr;
  void* body = nullptr;
  Chunking chunking;  ///< fewer than 2^31 chunks
};

/// Threads that wait for jobs: a while by looking, then asleep. A job reaches each of them in one cache line, and each
/// tells in a line of its own what it has done, since for processors that are far from each other every line counts.
class Workers {
 public:
  explicit Workers(int threads);  ///< with the callers of run(); std::system_error: the system gives no more
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Returns when all chunks are done. Each thread has as many neighbouring ones; who is done takes from the others.
  /// Callers on several threads take turns; a job does not run another one. Allocates nothing. Rethrows what the first
  /// chunk that failed threw.
  void run(const SharedJob& job);

  /// While one lives, its thread computes chunks of a job, as the threads of Workers always do.
  class Computing {
   public:
    Computing();
    ~Computing();
    Computing(const Computing&) = delete;
    Computing& operator=(const Computing&) = delete;
    static bool here();  ///< on this thread

   private:
    bool before_;
  };

 private:
  static constexpr size_t kLine = 64;
  struct alignas(kLine) Posted {  ///< a job, for all to read
    std::atomic<uint64_t> round = 0;
    std::atomic<void (*)(void*, int64_t, int64_t)> call = nullptr;
    std::atomic<void*> body = nullptr;
    std::atomic<int64_t> n = 0, grain = 0, chunks = 0, unit = 0;
  };
  /// Of one thread. The upper halves are the lower half of a round.
  struct Part {
    alignas(kLine) std::atomic<uint64_t> taken = 0;  ///< chunks of its share that somebody took
    alignas(kLine) std::atomic<uint64_t> done = 0;   ///< chunks that it ran
    std::thread thread;
  };

  Posted& posted(uint64_t round) { return posted_[round % 2]; }
  void compute(const SharedJob& job, int64_t chunk);
  uint32_t take(const SharedJob& job, uint32_t round, size_t part);
  uint32_t take_from_others(const SharedJob& job, uint32_t round, size_t part);
  bool everything_done(const SharedJob& job, uint32_t round, uint32_t own) const;
  bool read(uint64_t round, SharedJob& job);
  uint64_t wait_for_job(uint64_t seen);
  void help(uint64_t round, size_t part);
  void work(size_t part);
  void begin_round();
  void stop();

  std::mutex running_;  ///< of run()
  uint64_t round_ = 0;
  std::atomic<bool> failed_ = false;
  std::exception_ptr error_;
  std::vector<Part> parts_;  ///< the caller's first
  Posted posted_[2];         ///< by round: while one is read, the next is written
  alignas(kLine) std::atomic<int> asleep_ = 0;
  std::atomic<bool> stopped_ = false;
  std::mutex sleeping_;
  std::condition_variable wake_;
};

}  // namespace smelt
