#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>

#include "base/thread_pool.h"

namespace smelt {

/// The threads that weights are packed by.
class PackingThreads {
 public:
  /// Memory for what share() copies, which stays from one call to the next. Small objects that are made between the
  /// calls would take the begin of a block of the heap that was given back, and each call new pages.
  class Copies {
   public:
    /// Uninitialised memory aligned to 64 bytes, until the next take() or release().
    void* take(size_t bytes);
    void release();

   private:
    std::unique_ptr<void, decltype(&std::free)> memory_{nullptr, std::free};
    size_t bytes_ = 0;
  };

  /// While one lives, what its thread packs is shared with the threads of `pool`, and copied to `copies`, which is used
  /// by this thread alone.
  class Use {
   public:
    Use(ThreadPool& pool, Copies& copies);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    ThreadPool* pool_before_;
    Copies* copies_before_;
  };

  /// As many as gain for weights of so many bytes; 1: the calling one alone.
  static int64_t count(int64_t bytes);
  /// Calls body(begin, end, copy) for at most `ranges` that cover [0, n), each on one of those threads. copy:
  /// uninitialised memory of `bytes`, aligned to 64 bytes, of that range alone. Precondition: `ranges` is at most what
  /// count() said, and `body` calls no share() on this thread.
  static void share(int64_t n, int64_t ranges, size_t bytes,
                    const std::function<void(int64_t begin, int64_t end, void* copy)>& body);
};

}  // namespace smelt
